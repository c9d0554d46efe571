// SPDX-License-Identifier: Apache-2.0
#include "sft/comm/clocked_collectives.hpp"

#include <algorithm>
#include <cmath>

#include "sft/core/ensure.hpp"
#include "sft/device/clocked_device.hpp"

namespace sft::comm {

namespace {

/// For each kind of call.
struct CallTime {
  const Group& group;
  const Span& span;
  const Network& network;
  double sent_bytes;

  /// Of the ring through all ranks of the group, each of which sends the same.
  [[nodiscard]] double ring_bytes_per_s() const {
    if (span.num_nodes == 1) return network.within.bytes_per_s;
    return std::min(network.within.bytes_per_s, span.ranks_per_node * network.between.bytes_per_s);
  }
  /// Once round the ring, but for the last hop.
  [[nodiscard]] double hops_s() const {
    const int between = span.num_nodes - 1, within = group.size() - 1 - between;
    return within * network.within.hop_s + between * network.between.hop_s;
  }
  [[nodiscard]] const Link& slowest_link() const { return span.num_nodes == 1 ? network.within : network.between; }

  double operator()(const AllGather&) const { return hops_s() + sent_bytes / ring_bytes_per_s(); }
  double operator()(const ReduceScatterAdd&) const { return hops_s() + sent_bytes / ring_bytes_per_s(); }
  double operator()(const ReduceScatter&) const { return hops_s() + sent_bytes / ring_bytes_per_s(); }
  double operator()(const AllReduce&) const {
    constexpr double bandwidth_of_tree = 0.9;  // of a ring's
    const double ring_s = 2 * hops_s() + sent_bytes / ring_bytes_per_s();
    const double tree_hops_s = 2 * ((span.ranks_per_node - 1) * network.within.hop_s +
                                    std::ceil(std::log2(span.num_nodes)) * network.between.hop_s);
    return std::min(ring_s, tree_hops_s + sent_bytes / (bandwidth_of_tree * ring_bytes_per_s()));
  }
  double operator()(const Exchange& call) const {
    const auto bytes = static_cast<double>(
        std::max(call.send.empty() ? 0 : call.send.size_bytes(), call.receive.empty() ? 0 : call.receive.size_bytes()));
    return slowest_link().hop_s + bytes / slowest_link().bytes_per_s;
  }
  double operator()(const ExchangeAll&) const {
    const double share_between =
        static_cast<double>(group.size() - span.ranks_per_node) / std::max(1, group.size() - 1);
    return slowest_link().hop_s + std::max(sent_bytes * (1 - share_between) / network.within.bytes_per_s,
                                           sent_bytes * share_between / network.between.bytes_per_s);
  }
};

}  // namespace

double call_time_s(const Call& call, const Group& group, const Span& span, const Network& network) {
  if (group.size() == 1 || bytes_of(call) == 0) return 0;
  return network.call_s +
         std::visit(CallTime{group, span, network, static_cast<double>(bytes_to_send(call, group))}, call);
}

void ClockedCollectives::run(const Group& group, const Call& call, device::Stream& stream) {
  if (group.size() == 1) return;
  device::ClockedStream& clock = device::clocked(stream);
  const double time_s = call_time_s(call, group, span_of_(group), network_);
  clock.advance(time_s);
  auto found = std::ranges::find(times_, group.name(), &GroupTime::group);
  if (found == times_.end()) found = times_.insert(found, {.group = group.name()});
  found->all_s += time_s;
  if (clock.priority() == device::Priority::compute) found->on_compute_s += time_s;
}

device::Device::Block ClockedCollectives::allocate_shared(const Group& /*group*/, MemoryUse /*use*/,
                                                          std::size_t /*bytes*/) {
  SFT_ENSURE(false, "what only keeps the time has no memory");
  return {};
}

device::Device::Block ClockedCollectives::allocate_own(const Group& /*group*/, std::size_t /*bytes*/) {
  SFT_ENSURE(false, "what only keeps the time has no memory");
  return {};
}

}  // namespace sft::comm
