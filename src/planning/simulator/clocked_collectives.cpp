// SPDX-License-Identifier: Apache-2.0
#include "sft/simulator/clocked_collectives.hpp"

#include <algorithm>
#include <cmath>

#include "sft/core/ensure.hpp"
#include "sft/simulator/clocked_device.hpp"

namespace sft::simulator {

namespace {

/// For each kind of call.
struct CallTime {
  const comm::Group& group;
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

  double operator()(const comm::AllGather&) const { return hops_s() + sent_bytes / ring_bytes_per_s(); }
  double operator()(const comm::ReduceScatterAdd&) const { return hops_s() + sent_bytes / ring_bytes_per_s(); }
  double operator()(const comm::ReduceScatter&) const { return hops_s() + sent_bytes / ring_bytes_per_s(); }
  double operator()(const comm::AllReduce&) const {
    constexpr double bandwidth_of_tree = 0.9;  // of a ring's
    const double ring_s = 2 * hops_s() + sent_bytes / ring_bytes_per_s();
    const double tree_hops_s = 2 * ((span.ranks_per_node - 1) * network.within.hop_s +
                                    std::ceil(std::log2(span.num_nodes)) * network.between.hop_s);
    return std::min(ring_s, tree_hops_s + sent_bytes / (bandwidth_of_tree * ring_bytes_per_s()));
  }
  double operator()(const comm::Exchange& call) const {
    const auto bytes = static_cast<double>(
        std::max(call.send.empty() ? 0 : call.send.size_bytes(), call.receive.empty() ? 0 : call.receive.size_bytes()));
    return slowest_link().hop_s + bytes / slowest_link().bytes_per_s;
  }
  double operator()(const comm::ExchangeAll&) const {
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

/// Of those of one kind of call, the one whose groups have the form that is nearest to `span`; null: none.
template <class Measured>
const Measured* nearer(const Measured* found, const Measured& other, const Span& span) {
  if ((other.span.num_nodes > 1) != (span.num_nodes > 1)) return found;
  return found == nullptr || distance(other.span, span) < distance(found->span, span) ? &other : found;
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
double measured_size(const comm::Call& call) {
  if (const auto* exchange = std::get_if<comm::Exchange>(&call)) {
    return static_cast<double>(std::max(exchange->send.empty() ? 0 : exchange->send.size_bytes(),
                                        exchange->receive.empty() ? 0 : exchange->receive.size_bytes()));
  }
  return static_cast<double>(comm::bytes_of(call));
}

/// What was measured of calls like this one; null: nothing.
const MeasuredCalls* nearest(const comm::Call& call, const Span& span, const Network& network) {
  const MeasuredCalls* found = nullptr;
  for (const MeasuredCalls& calls : network.measured) {
    if (calls.call == comm::name_of(call)) found = nearer(found, calls, span);
  }
  return found;
}

double measured_s(const comm::Call& call, const MeasuredCalls& calls, const Span& span) {
  const double seconds = seconds_of(calls.points, measured_size(call));
  if (std::holds_alternative<comm::Exchange>(call) || calls.span == span) return seconds;
  const double size = size_of(span), of_measured = size_of(calls.span);
  return seconds * ((size - 1) / size) / ((of_measured - 1) / of_measured);
}

}  // namespace

double call_time_s(const comm::Call& call, const comm::Group& group, const Span& span, const Network& network) {
  if (group.size() == 1 || comm::bytes_of(call) == 0) return 0;
  if (const MeasuredCalls* calls = nearest(call, span, network)) return measured_s(call, *calls, span);
  return network.call_s +
         std::visit(CallTime{group, span, network, static_cast<double>(comm::bytes_to_send(call, group))}, call);
}

double wait_s(const comm::Call& call, double computed_s, const Span& span, const Network& network) {
  const bool sends = std::holds_alternative<comm::Exchange>(call) || std::holds_alternative<comm::ExchangeAll>(call);
  const MeasuredWaits* waits = nullptr;
  for (const MeasuredWaits& of : network.waits) {
    if (of.call == waited_calls[sends ? 1 : 0]) waits = nearer(waits, of, span);
  }
  if (waits == nullptr) return 0;
  MeasuredWaits::Point below{0, 0};
  for (const MeasuredWaits::Point& above : waits->points) {
    const double slope = (above.wait_s - below.wait_s) / (above.computed_s - below.computed_s);
    const bool is_last = &above == &waits->points.back();
    if (computed_s <= above.computed_s) return below.wait_s + slope * (computed_s - below.computed_s);
    if (is_last) return above.wait_s + std::max(slope, 0.0) * (computed_s - above.computed_s);
    below = above;
  }
  return 0;
}

double ClockedCollectives::next_wait_s(const comm::Call& call, const comm::Group& group, const Span& span,
                                       double now_s) const {
  Meeting last{.size = group.size(), .time_s = 0, .waited_s = 0};
  for (const Meeting& meeting : meetings_) {
    if (meeting.size >= group.size() && meeting.time_s >= last.time_s) last = meeting;
  }
  const double waited_s = total_wait_s_ - last.waited_s, computed_s = now_s - last.time_s - waited_s;
  return std::max(0.0, wait_s(call, std::max(computed_s, 0.0), span, network_) - waited_s);
}

void ClockedCollectives::note_meeting(const comm::Group& group, double now_s) {
  const Meeting met{.size = group.size(), .time_s = now_s, .waited_s = total_wait_s_};
  const auto found = std::ranges::find(meetings_, group.size(), &Meeting::size);
  if (found == meetings_.end()) {
    meetings_.push_back(met);
  } else {
    *found = met;
  }
}

void ClockedCollectives::run(const comm::Group& group, const comm::Call& call, device::Stream& stream) {
  if (group.size() == 1) return;
  ClockedStream& clock = clocked(stream);
  const Span span = span_of_(group);
  const bool computes = clock.priority() == device::Priority::compute;
  const double call_s = call_time_s(call, group, span, network_);
  double waited_s = 0;
  if (!network_.waits.empty()) {
    waited_s = next_wait_s(call, group, span, clock.now_s());
    total_wait_s_ += waited_s;
  }
  const double time_s = call_s + (computes ? waited_s : 0);
  clock.advance(time_s);
  if (!computes) clock.lag(waited_s);
  note_meeting(group, clock.now_s());
  auto found = std::ranges::find(times_, group.name(), &GroupTime::group);
  if (found == times_.end()) found = times_.insert(found, {.group = group.name()});
  found->all_s += time_s;
  if (computes) found->on_compute_s += time_s;
}

device::Device::Block ClockedCollectives::allocate_shared(const comm::Group& /*group*/, comm::MemoryUse /*use*/,
                                                          std::size_t /*bytes*/) {
  SFT_ENSURE(false, "what only keeps the time has no memory");
  return {};
}

device::Device::Block ClockedCollectives::allocate_own(const comm::Group& /*group*/, std::size_t /*bytes*/) {
  SFT_ENSURE(false, "what only keeps the time has no memory");
  return {};
}

}  // namespace sft::simulator
