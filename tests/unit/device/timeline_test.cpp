// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sft/device/factory.hpp"

namespace sft::device {

BOOST_AUTO_TEST_SUITE(timeline)

namespace {

constexpr std::size_t many = 100;

/// Work of a stream that is finished when it is told to be.
class Held final : public Pending {
 public:
  explicit Held(const bool& is_free) : is_free_(is_free) {}
  bool test() override { return is_free_; }

 private:
  const bool& is_free_;
};

struct Machine {
  std::unique_ptr<Device> device = make_device(Kind::cpu);
  std::unique_ptr<Stream> stream = device->make_stream();
  Timeline& timeline = device->timeline();
};

void pass_time() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

std::int64_t now_ns() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

const TimedRange& find(const Timeline::Noted& noted, const std::string& name) {
  const auto found = std::ranges::find(noted.ranges, name, &TimedRange::name);
  BOOST_TEST_REQUIRE((found != noted.ranges.end()), "no range " << name);
  return *found;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(nothing_is_noted_before_the_start_and_after_the_stop, Machine) {
  const auto work = [&] { return timed(timeline, *stream, {.category = "test", .what = "work"}, [] { return 7; }); };
  BOOST_TEST(!timeline.is_on());
  BOOST_TEST(work() == 7);
  timeline.start(many);
  BOOST_TEST(timeline.is_on());
  BOOST_TEST(work() == 7);
  BOOST_TEST(timeline.stop().ranges.size() == 1u);
  BOOST_TEST(work() == 7);
  timeline.start(many);
  BOOST_TEST(timeline.stop().ranges.empty());
}

BOOST_FIXTURE_TEST_CASE(a_range_has_the_name_of_its_parts, Machine) {
  timeline.start(many);
  const auto note = [&](const RangeLabel& label) { timed(timeline, label, [] {}); };
  note({.category = "model", .what = "forward", .of = "block", .number = 3, .bytes = 12});
  note({.category = "step", .what = "", .of = "step", .number = 0});
  note({.category = "wait", .what = "wait for tp"});
  const Timeline::Noted noted = timeline.stop();
  BOOST_TEST_REQUIRE(noted.ranges.size() == 3u);
  BOOST_TEST(noted.ranges[0].name == "block 3 forward");
  BOOST_TEST(noted.ranges[0].category == std::string("model"));
  BOOST_TEST(noted.ranges[0].bytes == 12u);
  BOOST_TEST(noted.ranges[0].track == "host");
  BOOST_TEST(noted.ranges[1].name == "step 0");
  BOOST_TEST(noted.ranges[2].name == "wait for tp");
}

BOOST_FIXTURE_TEST_CASE(an_inner_range_lies_in_the_outer_one, Machine) {
  stream->set_name("compute");
  timeline.start(many);
  timed(timeline, *stream, {.category = "test", .what = "outer"}, [&] {
    pass_time();
    timed(timeline, *stream, {.category = "test", .what = "inner"}, pass_time);
    pass_time();
  });
  const Timeline::Noted noted = timeline.stop();
  BOOST_TEST(noted.ranges.size() == 2u);
  const TimedRange &outer = find(noted, "outer"), &inner = find(noted, "inner");
  BOOST_TEST(outer.track == "compute");
  BOOST_TEST(outer.begin_ns < inner.begin_ns);
  BOOST_TEST(inner.begin_ns + 1'000'000 < inner.end_ns);
  BOOST_TEST(inner.end_ns < outer.end_ns);
}

// As a collective that was posted earlier, and another behind it.
BOOST_FIXTURE_TEST_CASE(a_range_on_a_stream_lasts_as_long_as_its_work, Machine) {
  bool first_is_free = false, second_is_free = false;
  timeline.start(many);
  const auto queue = [&](const char* name, const bool& is_free) {
    timed(timeline, *stream, {.category = "test", .what = name},
          [&] { stream->push(std::make_unique<Held>(is_free)); });
  };
  queue("first", first_is_free);
  queue("second", second_is_free);
  const std::int64_t queued_ns = now_ns();
  pass_time();
  const std::int64_t freed_first_ns = now_ns();
  first_is_free = true;
  stream->poll();
  const std::int64_t saw_first_ns = now_ns();
  pass_time();
  const std::int64_t freed_second_ns = now_ns();
  second_is_free = true;
  const Timeline::Noted noted = timeline.stop();  // finds the end
  const TimedRange &first = find(noted, "first"), &second = find(noted, "second");
  BOOST_TEST(first.begin_ns <= queued_ns);
  BOOST_TEST(first.end_ns >= freed_first_ns);
  BOOST_TEST(first.end_ns <= second.begin_ns);
  BOOST_TEST(second.begin_ns <= saw_first_ns);
  BOOST_TEST(second.end_ns >= freed_second_ns);
}

BOOST_FIXTURE_TEST_CASE(ranges_beyond_the_most_are_counted, Machine) {
  timeline.start(2);
  timed(timeline, {.category = "test", .what = "a"}, [&] {
    timed(timeline, *stream, {.category = "test", .what = "b"},
          [&] { timed(timeline, *stream, {.category = "test", .what = "c"}, [] {}); });
    timed(timeline, {.category = "test", .what = "d"}, [] {});
  });
  const Timeline::Noted noted = timeline.stop();
  BOOST_TEST_REQUIRE(noted.ranges.size() == 2u);
  BOOST_TEST(noted.ranges[0].name == "a");
  BOOST_TEST(noted.ranges[1].name == "b");
  BOOST_TEST(noted.num_left_out == 2u);
}

BOOST_FIXTURE_TEST_CASE(a_range_without_an_end_is_left_out, Machine) {
  timeline.start(many);
  const auto fail = [&] {
    timed(timeline, *stream, {.category = "test", .what = "broken"}, [] { throw std::runtime_error("no"); });
  };
  BOOST_CHECK_THROW(fail(), std::runtime_error);
  const Timeline::Id open = timeline.begin({.category = "test", .what = "open"});
  timed(timeline, {.category = "test", .what = "whole"}, [] {});
  const Timeline::Noted noted = timeline.stop();
  BOOST_TEST_REQUIRE(noted.ranges.size() == 1u);
  BOOST_TEST(noted.ranges[0].name == "whole");
  timeline.end(open);  // of a timeline that is over
}

}  // namespace sft::device

BOOST_AUTO_TEST_SUITE_END()
