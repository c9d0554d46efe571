// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives of a group on several nodes, some of which have several of its ranks. The ranks of a node share a window;
// a piece of the tensor goes from node to node once, in one message: with R ranks on each of N nodes a rank sends N - 1
// messages for a gather or a reduce-scatter and 2 (N - 1) for an all-reduce, where every rank by itself would send
// N R - 1 or twice that, and R times the bytes. (Where the staging memory is too small for what arrives, so many in
// each of several rounds.)
//
// Sums: the ranks of a node from left to right, then the nodes, in the order of their first ranks, from left to right.
// That is an order of the mesh and of where its ranks are: every run of it gives the same bits on all ranks, but others
// than the same ranks on other nodes, or on one. Numbers that travel as bf16 are rounded on their way into the sum of
// their node, which travels as it is.

#include <memory>

#include "local_work.hpp"
#include "node_call.hpp"
#include "node_map.hpp"
#include "sft/comm/call.hpp"

namespace sft::comm {

/// Of a group on several nodes.
struct NodeWindow {
  Group group;
  NodeMap nodes;
  std::unique_ptr<SharedWindow> window;  ///< of those ranks of the group that are on this node
};

/// A window of `bytes` on every rank, of MemoryUse::gathered once a node. Null where each node has one rank alone, for
/// which messages are as good, and, with `outcome` set to why, where one of the nodes cannot have it: the same on all
/// ranks. Collective over the group, and so is destruction.
[[nodiscard]] std::unique_ptr<NodeWindow> make_node_window(const Group& group, MemoryUse use, std::size_t bytes,
                                                           SharedWindow::Outcome& outcome);

// Calls on tensors in `of`, which outlives them. `staging`: memory for what other nodes send into a sum, of this call
// alone; a line of 64 bytes a node at least.
[[nodiscard]] std::unique_ptr<NodeCall> make_node_call(const NodeWindow& of, const AllGather& call, LocalWork& work);
[[nodiscard]] std::unique_ptr<NodeCall> make_node_call(const NodeWindow& of, const AllReduce& call, Tensor staging);
[[nodiscard]] std::unique_ptr<NodeCall> make_node_call(const NodeWindow& of, const ReduceScatter& call, Tensor staging);
[[nodiscard]] std::unique_ptr<NodeCall> make_node_call(const NodeWindow& of, const ReduceScatterAdd& call,
                                                       Tensor staging);

}  // namespace sft::comm
