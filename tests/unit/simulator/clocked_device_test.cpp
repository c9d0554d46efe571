// SPDX-License-Identifier: Apache-2.0
// Clocks of streams: what overlaps, what waits, and for whom.
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <typeinfo>

#include "sft/device/factory.hpp"
#include "sft/simulator/clocked_device.hpp"

BOOST_AUTO_TEST_SUITE(clocked_device)

namespace {

using namespace sft::device;
using namespace sft::simulator;

Rates rates_of(bool overlaps) {
  return {.products = {{100, 1e9}, {1000, 1e11}},
          .attention_forward_flops_per_s = 1e9,
          .attention_backward_flops_per_s = 1e9,
          .memory_bytes_per_s = 2e9,
          .host_bytes_per_s = 5e8,
          .launch_s = 0,
          .overlaps = overlaps};
}

/// Two streams of a device, and an event.
struct TwoStreams {
  explicit TwoStreams(bool overlaps) : device(rates_of(overlaps)) { other->set_name("gathers"); }

  ClockedDevice device;
  std::unique_ptr<Stream> one = device.make_stream(Priority::compute);
  std::unique_ptr<Stream> other = device.make_stream(Priority::communication);
  std::unique_ptr<Event> event = device.make_event();
};

constexpr double tolerance_percent = 1e-9;

}  // namespace

BOOST_AUTO_TEST_CASE(streams_run_side_by_side_until_one_waits) {
  TwoStreams s(true);
  clocked(*s.other).advance(3.0);
  s.event->record(*s.other);
  clocked(*s.other).advance(10.0);  // behind the event: nobody waits for it
  clocked(*s.one).advance(1.0);
  BOOST_TEST(clocked(*s.one).now_s() == 1.0);
  s.one->wait(*s.event);
  BOOST_TEST(clocked(*s.one).now_s() == 3.0);
  clocked(*s.one).advance(0.5);
  BOOST_TEST(clocked(*s.one).now_s() == 3.5);
  BOOST_TEST(clocked(*s.one).busy_s() == 1.5);
  BOOST_TEST(clocked(*s.one).waited_s().at("gathers") == 2.0);
  BOOST_TEST(clocked(*s.other).now_s() == 13.0);
}

BOOST_AUTO_TEST_CASE(who_comes_late_does_not_wait) {
  TwoStreams s(true);
  clocked(*s.other).advance(1.0);
  s.event->record(*s.other);
  clocked(*s.one).advance(4.0);
  s.one->wait(*s.event);
  BOOST_TEST(clocked(*s.one).now_s() == 4.0);
  BOOST_TEST(clocked(*s.one).waited_s().empty());
}

BOOST_AUTO_TEST_CASE(an_event_that_nobody_recorded_is_reached) {
  TwoStreams s(true);
  s.one->wait(*s.event);
  BOOST_TEST(clocked(*s.one).now_s() == 0.0);
}

// Of the background stream's 4 s, an op of 3 s that needs the memory for one of them takes that second from it.
BOOST_AUTO_TEST_CASE(background_work_shares_the_memory_with_ops) {
  TwoStreams s(true);
  const std::unique_ptr<Stream> background = s.device.make_stream(Priority::background);
  background->set_name("optimizer");
  clocked(*background).advance(4.0);
  s.event->record(*background);
  clocked(*s.one).advance(3.0, 1.0);
  BOOST_TEST(clocked(*s.one).now_s() == 4.0);
  s.one->wait(*s.event);
  BOOST_TEST(clocked(*s.one).now_s() == 5.0);
  BOOST_TEST(clocked(*s.one).waited_s().at("optimizer") == 1.0);
  // Nothing is left of it: an op has the memory for itself.
  clocked(*s.one).advance(3.0, 1.0);
  BOOST_TEST(clocked(*s.one).now_s() == 8.0);
}

BOOST_AUTO_TEST_CASE(background_work_hides_behind_ops_that_need_no_memory) {
  TwoStreams s(true);
  const std::unique_ptr<Stream> background = s.device.make_stream(Priority::background);
  clocked(*s.one).advance(2.0, 1.0);
  s.event->record(*s.one);
  background->wait(*s.event);
  clocked(*background).advance(4.0);
  s.event->record(*background);
  clocked(*s.one).advance(5.0);
  s.one->wait(*s.event);
  BOOST_TEST(clocked(*s.one).now_s() == 7.0);
  clocked(*s.other).advance(6.0, 6.0);  // communication is not counted
  BOOST_TEST(clocked(*background).now_s() == 6.0);
}

// An op that is half over when the work ends loses half of its bytes' time; the work queued behind the op, none.
BOOST_AUTO_TEST_CASE(ops_lose_what_they_share) {
  TwoStreams s(true);
  const std::unique_ptr<Stream> background = s.device.make_stream(Priority::background);
  clocked(*background).advance(1.0);
  clocked(*s.one).advance(2.0, 2.0);
  BOOST_TEST(clocked(*s.one).now_s() == 3.0);
  BOOST_TEST(clocked(*background).now_s() == 2.0);
  s.event->record(*s.one);
  background->wait(*s.event);
  clocked(*background).advance(1.0);
  BOOST_TEST(clocked(*background).now_s() == 4.0);
}

BOOST_AUTO_TEST_CASE(a_gather_ahead_is_hidden_but_for_the_first) {
  // Units of 2 s of work whose gathers take 1 s, one ahead: 1 + 3 x 2 s. With gathers of 5 s: 3 x 5 + 2 s.
  for (const double gather_s : {1.0, 5.0}) {
    TwoStreams s(true);
    for (int unit = 0; unit < 3; ++unit) {
      clocked(*s.other).advance(gather_s);
      s.event->record(*s.other);
      s.one->wait(*s.event);
      clocked(*s.one).advance(2.0);
    }
    BOOST_TEST(clocked(*s.one).now_s() == (gather_s == 1.0 ? 7.0 : 17.0));
    BOOST_TEST(clocked(*s.one).waited_s().at("gathers") == (gather_s == 1.0 ? 1.0 : 11.0));
  }
}

BOOST_AUTO_TEST_CASE(a_processor_does_one_thing_after_the_other) {
  TwoStreams s(false);
  clocked(*s.other).advance(3.0);
  s.event->record(*s.other);
  clocked(*s.one).advance(1.0);
  s.one->wait(*s.event);
  BOOST_TEST(clocked(*s.one).now_s() == 4.0);
  BOOST_TEST(clocked(*s.one).busy_s() == 1.0);
  BOOST_TEST(clocked(*s.one).waited_s().empty());
}

BOOST_AUTO_TEST_CASE(copies_take_the_time_of_their_way) {
  TwoStreams s(true);
  s.device.copy(nullptr, nullptr, 1000, *s.one);  // read and written
  BOOST_TEST(clocked(*s.one).now_s() == 1e-6, boost::test_tools::tolerance(tolerance_percent));
  s.device.copy(nullptr, nullptr, 1000, *s.other);  // to the node's memory
  BOOST_TEST(clocked(*s.other).now_s() == 2e-6, boost::test_tools::tolerance(tolerance_percent));
  s.device.fill_zero(nullptr, 1000, *s.one);
  BOOST_TEST(clocked(*s.one).now_s() == 1.5e-6, boost::test_tools::tolerance(tolerance_percent));
}

BOOST_AUTO_TEST_CASE(rates_of_products_follow_the_curve) {
  const Rates rates = rates_of(true);
  const auto nearly = boost::test_tools::tolerance(1e-6);
  BOOST_TEST(rates.product_flops_per_s(100, 100, 100) == 1e9, nearly);
  BOOST_TEST(rates.product_flops_per_s(1000, 1000, 1000) == 1e11, nearly);
  BOOST_TEST(rates.product_flops_per_s(10000, 10000, 10000) == 1e11, nearly);
  BOOST_TEST(rates.product_flops_per_s(100, 1000, 316) == rates.product_flops_per_s(316, 100, 1000), nearly);
  BOOST_TEST(rates.product_flops_per_s(10, 10, 10) == 1e8, nearly);
  BOOST_TEST(rates.product_flops_per_s(1000, 100, 316) == 1e10, boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(streams_of_other_devices_have_no_clock) {
  const auto device = make_null_device();
  const auto stream = device->make_stream();
  BOOST_CHECK_THROW(static_cast<void>(clocked(*stream)), std::bad_cast);
  ClockedDevice clocks(rates_of(true));
  BOOST_CHECK_THROW(static_cast<void>(clocks.allocate(1, Space::device)), std::logic_error);
}

// Ops of 1 s each, which the host queues in 3 s each; in a chain of four in 3 + 4 x 0.5.
BOOST_AUTO_TEST_CASE(a_device_waits_for_its_host) {
  Rates rates = rates_of(true);
  rates.host_launch_s = 3;
  rates.host_repeat_s = 0.5;
  ClockedDevice device(rates);
  const std::unique_ptr<Stream> one = device.make_stream(Priority::compute);
  const std::unique_ptr<Stream> other = device.make_stream(Priority::communication);
  for (int i = 0; i < 2; ++i) clocked(*one).advance(1.0);
  BOOST_TEST(clocked(*one).now_s() == 7.0);  // queued at 3 and at 6
  BOOST_TEST(clocked(*one).waited_s().at("host") == 5.0);
  clocked(*other).advance(20.0);  // queued at 9
  BOOST_TEST(clocked(*other).now_s() == 29.0);
  clocked(*one).advance(30.0);  // queued at 12: the host runs ahead
  for (int i = 0; i < 3; ++i) clocked(*one).advance(1.0);
  BOOST_TEST(clocked(*one).now_s() == 45.0);
  BOOST_TEST(clocked(*one).waited_s().at("host") == 10.0);
}

BOOST_AUTO_TEST_CASE(a_chain_is_queued_by_one_launch) {
  Rates rates = rates_of(true);
  rates.host_launch_s = 3;
  rates.host_repeat_s = 0.5;
  ClockedDevice device(rates);
  const std::unique_ptr<Stream> stream = device.make_stream(Priority::compute);
  BOOST_TEST(stream->tape() == nullptr);
  BOOST_TEST_REQUIRE(stream->start_tape());
  const auto defer = [&](std::uint64_t number) {
    stream->tape()->defer(std::array{number}, [&] { clocked(*stream).advance(1.0); });
  };
  defer_launches(stream->tape(), [&] {
    for (std::uint64_t i = 1; i <= 4; ++i) defer(i);
    BOOST_TEST(clocked(*stream).now_s() == 0.0);
  });
  BOOST_TEST(clocked(*stream).now_s() == 5.0 + 4.0);
  BOOST_TEST(clocked(*stream).waited_s().at("host") == 5.0);
  // What is no op of a chain ends it, and so does a wait for what the stream does not know.
  const std::unique_ptr<Stream> other = device.make_stream(Priority::communication);
  const std::unique_ptr<Event> event = device.make_event();
  event->record(*other);
  const LaunchTape::Counts before = stream->tape()->counts();
  defer_launches(stream->tape(), [&] {
    defer(5), defer(6);
    stream->wait(*event);
    defer(7), defer(8);
    stream->wait(*event);  // known
    device.fill_zero(nullptr, 0, *stream);
    clocked(*stream).advance(1.0);
    defer(9);
    event->record(*stream);
    stream->wait(*event);  // its own
    defer(10);
  });
  BOOST_TEST(stream->tape()->counts().chains - before.chains == 2);
  BOOST_TEST(stream->tape()->counts().repeated - before.repeated == 5);
  BOOST_TEST(stream->tape()->counts().plain - before.plain == 2);
}

BOOST_AUTO_TEST_SUITE_END()
