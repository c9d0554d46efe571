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

double size_of(const Span& span) { return static_cast<double>(span.num_nodes) * span.ranks_per_node; }

/// How far apart the forms of two groups are.
double distance(const Span& a, const Span& b) {
  return std::abs(std::log(static_cast<double>(a.num_nodes) / b.num_nodes)) +
         std::abs(std::log(static_cast<double>(a.ranks_per_node) / b.ranks_per_node));
}

/// Along the lines through the points; below the first it stays.
double seconds_of(const std::vector<MeasuredCalls::Point>& points, double bytes) {
  if (bytes <= points.front().bytes) return points.front().seconds;
  auto above = std::ranges::find_if(points, [&](const MeasuredCalls::Point& point) { return point.bytes >= bytes; });
  if (above == points.end()) --above;
  const auto below = above - 1;
  const double slope = (above->seconds - below->seconds) / (above->bytes - below->bytes);
  return below->seconds + std::max(slope, 0.0) * (bytes - below->bytes);
}

/// How large a call is, as measured ones are told apart.
double measured_size(const Call& call) {
  if (const auto* exchange = std::get_if<Exchange>(&call)) {
    return static_cast<double>(std::max(exchange->send.empty() ? 0 : exchange->send.size_bytes(),
                                        exchange->receive.empty() ? 0 : exchange->receive.size_bytes()));
  }
  return static_cast<double>(bytes_of(call));
}

/// What was measured of calls like this one; null: nothing.
const MeasuredCalls* nearest(const Call& call, const Span& span, const Network& network) {
  const MeasuredCalls* found = nullptr;
  for (const MeasuredCalls& calls : network.measured) {
    if (calls.call != name_of(call) || (calls.span.num_nodes > 1) != (span.num_nodes > 1)) continue;
    if (found == nullptr || distance(calls.span, span) < distance(found->span, span)) found = &calls;
  }
  return found;
}

double measured_s(const Call& call, const MeasuredCalls& calls, const Span& span) {
  const double seconds = seconds_of(calls.points, measured_size(call));
  if (std::holds_alternative<Exchange>(call) || calls.span == span) return seconds;
  const double size = size_of(span), of_measured = size_of(calls.span);
  return seconds * ((size - 1) / size) / ((of_measured - 1) / of_measured);
}

}  // namespace

double call_time_s(const Call& call, const Group& group, const Span& span, const Network& network) {
  if (group.size() == 1 || bytes_of(call) == 0) return 0;
  if (const MeasuredCalls* calls = nearest(call, span, network)) return measured_s(call, *calls, span);
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
