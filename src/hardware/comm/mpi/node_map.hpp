// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which ranks of a group are on which node, and who on a node has to do with a rank of another one.

#include <vector>

#include "communicator.hpp"

namespace sft::comm {

/// The ranks of `group` that share this rank's node, in the order of the group, as a group of that name. Collective.
///
/// For tests of several nodes on one host: where SFT_PRETEND_NODES is set, such as `3,5`, the first 3 ranks of the
/// world are taken for one node, the next 5 for another, and what is left for a last one. Throws a configuration Error
/// for anything else in it.
[[nodiscard]] Group split_by_node(const Group& group, const std::string& name);

/// Pure. Nodes are numbered in the order of their first ranks.
class NodeMap {
 public:
  /// `mark_of_rank`: equal for ranks of one node.
  explicit NodeMap(const std::vector<std::int64_t>& mark_of_rank);

  [[nodiscard]] int num_nodes() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] std::size_t num_ranks() const { return node_of_rank_.size(); }
  [[nodiscard]] int node_of(int rank) const { return node_of_rank_[rank]; }
  /// The number of a rank among those of its node.
  [[nodiscard]] int number_on_node(int rank) const { return number_on_node_[rank]; }
  /// Ascending.
  [[nodiscard]] const std::vector<int>& ranks_on(int node) const { return ranks_[node]; }
  [[nodiscard]] std::size_t most_ranks_on_a_node() const;

  /// The rank of `node` that sends and receives what `owner` has a part in: `owner` itself on its own node, else the
  /// one of the same number among the ranks of its node, or of that number modulo theirs. So with R ranks on each of N
  /// nodes every rank is the agent of N owners.
  [[nodiscard]] int agent(int node, int owner) const;
  /// The owners on `node` whose agent on its own node `rank` is; ascending.
  [[nodiscard]] std::vector<int> owners_of(int rank, int node) const;

 private:
  std::vector<int> node_of_rank_;
  std::vector<int> number_on_node_;
  std::vector<std::vector<int>> ranks_;
};

/// The map of a group of which the ranks `neighbours` are on this node. Collective over both.
[[nodiscard]] NodeMap map_nodes(const Group& group, const Group& neighbours);

}  // namespace sft::comm
