// SPDX-License-Identifier: Apache-2.0
#include "node_collectives.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "reduce.hpp"
#include "sft/core/ensure.hpp"
#include "slice.hpp"

namespace sft::comm {

namespace {

using Step = NodeCall::Step;
using Site = NodeCall::Site;
using Sources = std::span<const void* const>;

std::byte* memory_of(const Tensor& tensor) { return tensor.as<std::byte>(); }

/// How numbers become one.
struct Joining {
  DType dtype;
  ReduceOp op = ReduceOp::sum;
  bool is_rounded = false;  ///< what the ranks have is rounded to bf16 first

  /// Of the ranks of a node. `out` may be one of them.
  void join_ranks(std::byte* out, Sources sources, std::size_t bytes) const {
    if (is_rounded) return sum_rounded(reinterpret_cast<float*>(out), sources, num_elements(bytes, dtype), false);
    reduce(out, sources, num_elements(bytes, dtype), dtype, op);
  }
  /// Of what the nodes have joined.
  void join_nodes(std::byte* out, Sources sources, std::size_t bytes) const {
    reduce(out, sources, num_elements(bytes, dtype), dtype, op);
  }
};

/// This rank, as it stands in a call over several nodes.
class Position {
 public:
  explicit Position(const NodeWindow& of) : nodes_(of.nodes), rank_(of.group.rank()) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int own_node() const { return nodes_.node_of(rank_); }
  [[nodiscard]] int num_nodes() const { return nodes_.num_nodes(); }
  [[nodiscard]] int num_ranks() const { return static_cast<int>(nodes_.num_ranks()); }
  /// This rank's agent on another node.
  [[nodiscard]] int agent_on(int node) const { return nodes_.agent(node, rank_); }
  /// The rank here that is the agent of `owner`, by its number on this node.
  [[nodiscard]] int neighbour_for(int owner) const { return nodes_.number_on_node(nodes_.agent(own_node(), owner)); }

  /// Calls visit(node) for the others, beginning behind the own one, so that not all send to the same one first.
  template <class Visit>
  void for_each_other_node(const Visit& visit) const {
    for (int distance = 1; distance < num_nodes(); ++distance) visit((own_node() + distance) % num_nodes());
  }
  /// Calls visit(owner) for all ranks whose agent on its node this one is: itself, and some of each other node.
  template <class Visit>
  void for_each_owner(const Visit& visit) const {
    visit(rank_);
    for_each_other_owner(visit);
  }
  template <class Visit>
  void for_each_other_owner(const Visit& visit) const {
    for_each_other_node([&](int node) {
      for (const int owner : nodes_.owners_of(rank_, node)) visit(owner);
    });
  }

 private:
  const NodeMap& nodes_;  // of a NodeWindow, which outlives the call
  int rank_;
};

/// Where the sums of other nodes arrive: a slot of the staging memory for each.
struct Slots {
  std::byte* begin;
  std::size_t bytes;  ///< of a slot
  int own_node;

  Slots(const Tensor& staging, const Position& here) : begin(memory_of(staging)), own_node(here.own_node()) {
    constexpr std::size_t line_bytes = 64;
    const std::size_t lines = staging.size_bytes() / line_bytes / (here.num_nodes() - 1);
    SFT_ENSURE(lines > 0,
               "set_staging() comes before the first reduction, and each node has a line of the staging memory");
    bytes = lines * line_bytes;
  }
  [[nodiscard]] std::byte* of(int node) const { return begin + (node < own_node ? node : node - 1) * bytes; }
};

/// Each rank joins its piece of `slice`, this rank's tensor, over all ranks: the agents join those of their nodes where
/// they lie, and send them to the owner, as much at a time as a slot holds. There finish(begin, count, sources) gets,
/// for every run of bytes of the own piece, what the nodes have joined.
template <class Finish>
void append_joining(std::vector<Step>& steps, const Position& here, const Slice& slice, const Joining& joining,
                    const Slots& slots, const Finish& finish) {
  steps.push_back({[=](const Site& site, Transfers&) {
    here.for_each_owner([&](int owner) {
      std::vector<const void*> sources;
      for (int neighbour = 0; neighbour < site.window.group().size(); ++neighbour) {
        sources.push_back(site.tensor(neighbour) + (slice.piece(owner) - slice.begin));
      }
      joining.join_ranks(slice.piece(owner), sources, slice.bytes_of_piece(owner));
    });
  }});
  for (std::size_t begin = 0; begin < slice.piece_bytes; begin += slots.bytes) {
    const auto count_of = [=](int owner) {
      return std::min(slots.bytes, slice.bytes_of_piece(owner) - std::min(begin, slice.bytes_of_piece(owner)));
    };
    const std::size_t count = count_of(here.rank());
    steps.push_back({[=](const Site&, Transfers& transfers) {
      here.for_each_other_node([&](int node) { transfers.receive(slots.of(node), count, here.agent_on(node)); });
      here.for_each_other_owner([&](int owner) { transfers.send(slice.piece(owner) + begin, count_of(owner), owner); });
    }});
    steps.push_back({[=](const Site&, Transfers&) {
      std::vector<const void*> sources;
      for (int node = 0; node < here.num_nodes(); ++node) {
        sources.push_back(node == here.own_node() ? slice.piece(here.rank()) + begin : slots.of(node));
      }
      if (count > 0) finish(begin, count, Sources(sources));
    }});
  }
}

/// Behind append_joining: every rank gets the pieces of all, which lie at `pieces(owner)` of their owners and of no one
/// else; `bytes_of(owner)` of them travel. `arrived(owner)` is called for the pieces that this rank then has for its
/// node.
template <class Pieces, class BytesOf, class Arrived>
void append_spreading(std::vector<Step>& steps, const Position& here, const Slice& slice, const Pieces& pieces,
                      const BytesOf& bytes_of, const Arrived& arrived) {
  steps.push_back({[=](const Site&, Transfers& transfers) {
    here.for_each_other_owner([&](int owner) { transfers.receive(pieces(owner), bytes_of(owner), owner); });
    here.for_each_other_node(
        [&](int node) { transfers.send(pieces(here.rank()), bytes_of(here.rank()), here.agent_on(node)); });
  }});
  steps.push_back({[=](const Site&, Transfers&) { here.for_each_owner(arrived); }});
  steps.push_back({[=](const Site& site, Transfers&) {
                     for (int owner = 0; owner < here.num_ranks(); ++owner) {
                       std::byte* const own = slice.piece(owner);
                       const std::byte* from = site.tensor(here.neighbour_for(owner)) + (own - slice.begin);
                       if (from != own) std::memcpy(own, from, slice.bytes_of_piece(owner));
                     }
                   },
                   /*waits_for_node=*/true});
}

/// Of a tensor with a piece for each rank, all equally long.
Slice equal_pieces(const Tensor& tensor, const NodeWindow& of) {
  return {memory_of(tensor), tensor.size_bytes(), tensor.size_bytes() / of.group.size()};
}

std::unique_ptr<NodeCall> call_of(const NodeWindow& of, const char* name, const std::byte* tensor,
                                  std::vector<Step> steps) {
  return std::make_unique<NodeCall>(of.group, *of.window, name, tensor, std::move(steps));
}

}  // namespace

std::unique_ptr<NodeWindow> make_node_window(const Group& group, MemoryUse use, std::size_t bytes,
                                             SharedWindow::Outcome& outcome) {
  const Group neighbours = split_by_node(group, "neighbours");
  NodeMap nodes = map_nodes(group, neighbours);
  if (nodes.most_ranks_on_a_node() == 1) {
    outcome = SharedWindow::Outcome::other_node;
    return nullptr;
  }
  std::unique_ptr<SharedWindow> window = SharedWindow::make(neighbours, use, bytes, outcome);
  auto worst = static_cast<std::int64_t>(outcome);
  group.max(std::span(&worst, 1));
  outcome = static_cast<SharedWindow::Outcome>(worst);
  if (outcome != SharedWindow::Outcome::made) return nullptr;
  return std::make_unique<NodeWindow>(NodeWindow{group, std::move(nodes), std::move(window)});
}

std::unique_ptr<NodeCall> make_node_call(const NodeWindow& of, const AllGather& call, LocalWork& work) {
  const Position here(of);
  const Tensor full = call.full;
  const ConstTensor local = call.local;
  const std::size_t bytes = local.size_bytes();
  const auto place = [=](int rank) { return memory_of(full) + rank * bytes; };
  std::vector<Step> steps;
  steps.push_back({[=, &work](const Site& site, Transfers& transfers) {
    for (int neighbour = 0; neighbour < site.window.group().size(); ++neighbour) {
      SFT_ENSURE(site.tensor(neighbour) == memory_of(full), "all ranks of a node gather into the same memory");
    }
    here.for_each_other_owner([&](int owner) { transfers.receive(place(owner), bytes, owner); });
    here.for_each_other_node([&](int node) { transfers.send(local.data, bytes, here.agent_on(node)); });
    std::byte* const own = place(here.rank());
    if (local.data != own) work.copy(own, local.as<std::byte>(), bytes);
  }});
  return call_of(of, "all_gather", memory_of(full), std::move(steps));
}

std::unique_ptr<NodeCall> make_node_call(const NodeWindow& of, const AllReduce& call, Tensor staging) {
  const Position here(of);
  const Tensor inout = call.inout, wire = call.wire;
  const bool is_rounded = !wire.empty();
  const Joining joining{inout.dtype, call.op, is_rounded};
  const Slice slice{memory_of(inout), inout.size_bytes(), piece_bytes_of(inout.size_bytes(), of.group.size())};
  const auto on_wire = [=](int owner) { return wire.as<std::uint16_t>() + (slice.piece(owner) - slice.begin) / 4; };
  std::vector<Step> steps;
  append_joining(steps, here, slice, joining, Slots(staging, here),
                 [=](std::size_t begin, std::size_t count, Sources sources) {
                   joining.join_nodes(slice.piece(here.rank()) + begin, sources, count);
                 });
  const auto bytes_of = [=](int owner) { return slice.bytes_of_piece(owner) / (is_rounded ? 2 : 1); };
  if (!is_rounded) {
    append_spreading(
        steps, here, slice, [=](int owner) { return slice.piece(owner); }, bytes_of, [](int) {});
    return call_of(of, "all_reduce", memory_of(inout), std::move(steps));
  }
  steps.push_back({[=](const Site&, Transfers&) {
    round_to_bf16(on_wire(here.rank()), reinterpret_cast<const float*>(slice.piece(here.rank())),
                  num_elements(slice.bytes_of_piece(here.rank()), DType::float32));
  }});
  append_spreading(steps, here, slice, on_wire, bytes_of, [=](int owner) {
    const void* const piece = on_wire(owner);
    sum_bf16(reinterpret_cast<float*>(slice.piece(owner)), Sources(&piece, 1),
             num_elements(slice.bytes_of_piece(owner), DType::float32), false);
  });
  return call_of(of, "all_reduce", memory_of(inout), std::move(steps));
}

std::unique_ptr<NodeCall> make_node_call(const NodeWindow& of, const ReduceScatter& call, Tensor staging) {
  const Position here(of);
  const Joining joining{.dtype = call.inout.dtype, .is_rounded = !call.wire.empty()};
  const Slice slice = equal_pieces(call.inout, of);
  std::vector<Step> steps;
  append_joining(steps, here, slice, joining, Slots(staging, here),
                 [=](std::size_t begin, std::size_t count, Sources sources) {
                   joining.join_nodes(slice.piece(here.rank()) + begin, sources, count);
                 });
  return call_of(of, "reduce_scatter", memory_of(call.inout), std::move(steps));
}

std::unique_ptr<NodeCall> make_node_call(const NodeWindow& of, const ReduceScatterAdd& call, Tensor staging) {
  const Position here(of);
  const Joining joining{.dtype = DType::float32, .is_rounded = !call.wire.empty()};
  std::byte* const local = memory_of(call.local);
  std::vector<Step> steps;
  append_joining(steps, here, equal_pieces(call.full, of), joining, Slots(staging, here),
                 [=](std::size_t begin, std::size_t count, Sources sources) {
                   add_sum(reinterpret_cast<float*>(local + begin), sources, num_elements(count, DType::float32));
                 });
  return call_of(of, "reduce_scatter_add", memory_of(call.full), std::move(steps));
}

}  // namespace sft::comm
