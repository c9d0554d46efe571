// SPDX-License-Identifier: Apache-2.0
// Times of collectives, by hand.
#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <vector>

#include "sft/simulator/clocked_collectives.hpp"
#include "sft/simulator/clocked_device.hpp"

BOOST_AUTO_TEST_SUITE(clocked_collectives)

namespace {

using namespace sft;
using namespace sft::comm;
using namespace sft::simulator;

const Network network{
    .within = {.bytes_per_s = 100e9, .hop_s = 1e-6}, .between = {.bytes_per_s = 10e9, .hop_s = 5e-6}, .call_s = 10e-6};
const auto nearly = boost::test_tools::tolerance(1e-9);

/// float32, without memory behind it.
Tensor floats(std::int64_t count) {
  static char somewhere = 0;
  return {&somewhere, DType::float32, {count}};
}

constexpr std::int64_t count = 1 << 20;
constexpr double bytes = 4.0 * count;

}  // namespace

BOOST_AUTO_TEST_CASE(a_gather_in_a_node_goes_round_its_ring) {
  const Group group = planned_group(0, 4, "fsdp");
  const AllGather gather{floats(count), floats(count / 4)};
  BOOST_TEST(call_time_s(gather, group, {1, 4}, network) == 10e-6 + 3e-6 + 0.75 * bytes / 100e9, nearly);
}

BOOST_AUTO_TEST_CASE(between_nodes_each_rank_of_a_node_has_a_link) {
  const Group group = planned_group(0, 4, "fsdp");
  const ReduceScatterAdd reduce{floats(count / 4), floats(count)};
  BOOST_TEST(call_time_s(reduce, group, {2, 2}, network) == 10e-6 + 2e-6 + 5e-6 + 0.75 * bytes / 20e9, nearly);
  BOOST_TEST(call_time_s(reduce, group, {4, 1}, network) == 10e-6 + 15e-6 + 0.75 * bytes / 10e9, nearly);
  const Group wide =
      planned_group(0, 64, "fsdp");  // 32 links between nodes are more than what a rank sends in its node
  const AllGather gather{floats(count), floats(count / 64)};
  BOOST_TEST(call_time_s(gather, wide, {2, 32}, network) == 10e-6 + 62e-6 + 5e-6 + bytes * 63 / 64 / 100e9, nearly);
}

BOOST_AUTO_TEST_CASE(an_all_reduce_takes_the_faster_of_ring_and_tree) {
  const Group group = planned_group(0, 64, "dp_replicate");
  const double ring_hops_s = 2 * 63 * 5e-6, tree_hops_s = 2 * 6 * 5e-6, sent = 2 * bytes * 63 / 64;
  const AllReduce large{floats(64 * count), ReduceOp::sum};
  BOOST_TEST(call_time_s(large, group, {64, 1}, network) == 10e-6 + ring_hops_s + 64 * sent / 10e9, nearly);
  const AllReduce small{floats(64), ReduceOp::sum};
  BOOST_TEST(call_time_s(small, group, {64, 1}, network) == 10e-6 + tree_hops_s + 2.0 * 4 * 63 / 9e9, nearly);
}

BOOST_AUTO_TEST_CASE(what_was_measured_goes_before_the_links) {
  Network measured = network;
  measured.measured = {{"all_gather", {.num_nodes = 1, .ranks_per_node = 4}, {{1000, 5e-6}, {3000, 9e-6}}},
                       {"all_gather", {.num_nodes = 1, .ranks_per_node = 8}, {{1000, 50e-6}, {3000, 90e-6}}}};
  const Group four = planned_group(0, 4, "fsdp"), two = planned_group(0, 2, "fsdp");
  const auto seconds = [&](std::int64_t elements, const Group& group, const Span& span) {
    return call_time_s(AllGather{floats(elements), floats(elements / group.size())}, group, span, measured);
  };
  BOOST_TEST(seconds(500, four, {1, 4}) == 7e-6, nearly);    // on the line between the points
  BOOST_TEST(seconds(100, four, {1, 4}) == 5e-6, nearly);    // below them as the first
  BOOST_TEST(seconds(1250, four, {1, 4}) == 13e-6, nearly);  // and on the line beyond them
  // Of a form that was not measured as of the nearest, by what each rank sends: a half in place of three quarters.
  BOOST_TEST(seconds(500, two, {1, 2}) == 7e-6 * 0.5 / 0.75, nearly);
  // Between nodes, and calls of other kinds: the links.
  BOOST_TEST(seconds(count, four, {2, 2}) == 10e-6 + 2e-6 + 5e-6 + 0.75 * bytes / 20e9, nearly);
  BOOST_TEST(call_time_s(ReduceScatterAdd{floats(count / 4), floats(count)}, four, {1, 4}, measured) ==
                 10e-6 + 3e-6 + 0.75 * bytes / 100e9,
             nearly);
}

BOOST_AUTO_TEST_CASE(a_ring_of_keys_is_as_slow_as_its_slowest_hop) {
  const Group group = planned_group(0, 4, "sp");
  const Exchange exchange{floats(count), 1, floats(count), 3};
  BOOST_TEST(call_time_s(exchange, group, {1, 4}, network) == 11e-6 + bytes / 100e9, nearly);
  BOOST_TEST(call_time_s(exchange, group, {2, 2}, network) == 15e-6 + bytes / 10e9, nearly);
}

BOOST_AUTO_TEST_CASE(heads_and_rows_of_tokens_go_to_all_at_once) {
  const Group group = planned_group(0, 4, "ep");
  const std::vector<Message> sends{{floats(count), 1}, {floats(count), 2}, {floats(count), 3}};
  const ExchangeAll exchange{sends, sends};
  BOOST_TEST(call_time_s(exchange, group, {1, 4}, network) == 11e-6 + 3 * bytes / 100e9, nearly);
  BOOST_TEST(call_time_s(exchange, group, {2, 2}, network) == 15e-6 + 2 * bytes / 10e9, nearly);
}

BOOST_AUTO_TEST_CASE(what_travels_as_bf16_takes_half) {
  const Group group = planned_group(0, 4, "fsdp");
  static char somewhere = 0;
  const Tensor wire(&somewhere, DType::bf16, {count});
  const ReduceScatterAdd reduce{floats(count / 4), floats(count), wire};
  BOOST_TEST(call_time_s(reduce, group, {1, 4}, network) == 13e-6 + 0.375 * bytes / 100e9, nearly);
}

/// Of ranks that share cores: pairs, and all four.
Network taking_turns() {
  Network shared;
  shared.measured = {{"all_reduce", {1, 4}, {{1, 1.0}, {2, 1.0}}}};
  shared.waits = {{"all_reduce", {1, 2}, {{10, 1}, {20, 2}}},
                  {"all_reduce", {1, 4}, {{10, 5}, {20, 6}}},
                  {"exchange_all", {1, 4}, {{10, 7}, {20, 8}}}};
  return shared;
}

BOOST_AUTO_TEST_CASE(ranks_that_take_turns_wait_by_how_long_they_computed) {
  const Network shared = taking_turns();
  const Call sum = AllReduce{floats(1), ReduceOp::sum}, gather = AllGather{floats(4), floats(1)}, exchange = Exchange{};
  BOOST_TEST(wait_s(sum, 0, {1, 4}, shared) == 0.0);
  BOOST_TEST(wait_s(sum, 5, {1, 4}, shared) == 2.5, nearly);   // on the line to the first point
  BOOST_TEST(wait_s(sum, 15, {1, 4}, shared) == 5.5, nearly);  // between two
  BOOST_TEST(wait_s(sum, 40, {1, 4}, shared) == 8.0, nearly);  // and on the line beyond them
  BOOST_TEST(wait_s(gather, 15, {1, 2}, shared) == 1.5, nearly);
  BOOST_TEST(wait_s(gather, 15, {1, 8}, shared) == 5.5, nearly);    // the nearest form
  BOOST_TEST(wait_s(exchange, 15, {1, 4}, shared) == 7.5, nearly);  // messages
  BOOST_TEST(wait_s(sum, 15, {2, 2}, shared) == 0.0);               // nothing is known between nodes
  BOOST_TEST(wait_s(sum, 15, {1, 4}, network) == 0.0);
}

/// One processor, whose streams share a clock.
struct Processor {
  simulator::ClockedDevice device{[] {
    simulator::Rates rates;
    rates.overlaps = false;
    return rates;
  }()};
  const Group pair = planned_group(0, 2, "tp"), all = planned_group(0, 4, "world");
  ClockedCollectives collectives{taking_turns(), [](const Group& group) { return Span{1, group.size()}; }};
  std::unique_ptr<device::Stream> compute = device.make_stream(device::Priority::compute);
  std::unique_ptr<device::Stream> comm = device.make_stream(device::Priority::communication);

  [[nodiscard]] double now_s() const { return simulator::clocked(*compute).now_s(); }
  void works(double seconds) const { simulator::clocked(*compute).advance(seconds); }
  void meets(const Group& group) { collectives.all_reduce(group, floats(1), ReduceOp::sum, *compute); }
};

BOOST_AUTO_TEST_CASE(what_ranks_waited_in_smaller_groups_they_do_not_wait_again) {
  Processor p;
  const double pair_call_s = 0.5 / 0.75;  // from that of four
  p.works(10);
  p.meets(p.all);
  BOOST_TEST(p.now_s() == 10 + 5 + 1.0, nearly);
  p.meets(p.all);  // at once
  BOOST_TEST(p.now_s() == 17.0, nearly);
  p.works(10);
  p.meets(p.pair);
  BOOST_TEST(p.now_s() == 27 + 1 + pair_call_s, nearly);
  p.works(10 - pair_call_s);
  p.meets(p.all);  // 20 since they met, and 1 is waited already
  BOOST_TEST(p.now_s() == 38 + (6 - 1) + 1.0, nearly);
  p.works(10);
  p.meets(p.pair);  // which have met in the call of all
  BOOST_TEST(p.now_s() == 54 + 1 + pair_call_s, nearly);
}

BOOST_AUTO_TEST_CASE(what_a_rank_does_meanwhile_hides_waits_of_other_streams) {
  const auto ends_at = [](double meanwhile_s) {
    Processor p;
    const auto arrived = p.device.make_event();
    p.works(10);
    p.collectives.all_reduce(p.all, floats(1), ReduceOp::sum, *p.comm);
    arrived->record(*p.comm);
    BOOST_TEST(p.now_s() == 11.0, nearly);  // its own part of the call
    p.works(meanwhile_s);
    p.comm->wait(*arrived);  // the order of a stream is kept anyhow
    BOOST_TEST(p.now_s() == 11 + meanwhile_s, nearly);
    p.compute->wait(*arrived);
    return p.now_s();
  };
  BOOST_TEST(ends_at(2) == 11.0 + 5, nearly);
  BOOST_TEST(ends_at(7) == 11.0 + 7, nearly);
}

BOOST_AUTO_TEST_CASE(times_are_told_by_group_and_stream) {
  simulator::ClockedDevice device({.products = {{1, 1}}, .memory_bytes_per_s = 1, .host_bytes_per_s = 1});
  const auto compute = device.make_stream(device::Priority::compute);
  const auto tp_stream = device.make_stream(device::Priority::communication);
  ClockedCollectives collectives(network, [](const Group& group) { return Span{1, group.size()}; });
  const Group tp = planned_group(0, 2, "tp"), alone = planned_group(0, 1, "sp");
  collectives.all_reduce(tp, floats(count), ReduceOp::sum, *compute);
  collectives.all_reduce(tp, floats(count), ReduceOp::sum, *tp_stream);
  collectives.all_reduce(alone, floats(count), ReduceOp::sum, *compute);
  BOOST_REQUIRE(collectives.times().size() == 1);
  const GroupTime& time = collectives.times().front();
  BOOST_TEST(time.group == "tp");
  BOOST_TEST(time.on_compute_s == simulator::clocked(*compute).now_s(), nearly);
  BOOST_TEST(time.all_s == 2 * time.on_compute_s, nearly);
  BOOST_CHECK_THROW(static_cast<void>(collectives.allocate_own(tp, 1)), std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()
