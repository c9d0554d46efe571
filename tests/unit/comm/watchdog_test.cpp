// SPDX-License-Identifier: Apache-2.0
// When collectives stand still, by a clock of the test's own, and who is told.
#include "comm/watchdog.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>

#include "comm/call_log.hpp"

namespace sft::comm {

namespace {

using std::chrono::seconds;

/// Seconds since some moment.
CallLog::Time at(int time_s) { return CallLog::Time() + seconds(1000 + time_s); }

constexpr std::size_t tp = 0, fsdp = 1;
constexpr std::size_t mebibyte = std::size_t{1} << 20U;

}  // namespace

BOOST_AUTO_TEST_CASE(without_a_call_nothing_stands_still) {
  const CallLog log({"tp"});
  BOOST_TEST((log.standstill(at(1000000)) == seconds(0)));
  BOOST_TEST((CallLog({}).standstill(at(5)) == seconds(0)));
}

BOOST_AUTO_TEST_CASE(time_counts_from_the_first_call_after_idleness) {
  CallLog log({"tp", "fsdp"});
  log.start(tp, "a", 0, at(100));
  BOOST_TEST((log.standstill(at(107)) == seconds(7)));
  log.start(fsdp, "b", 0, at(110));  // more that waits is no movement
  BOOST_TEST((log.standstill(at(111)) == seconds(11)));
  log.finish(tp, at(112));
  BOOST_TEST((log.standstill(at(115)) == seconds(3)));
  log.finish(fsdp, at(120));
  BOOST_TEST((log.standstill(at(500)) == seconds(0)));
  log.start(tp, "c", 0, at(600));
  BOOST_TEST((log.standstill(at(601)) == seconds(1)));
}

BOOST_AUTO_TEST_CASE(any_group_that_moves_is_movement) {
  CallLog log({"tp", "fsdp"});
  log.start(fsdp, "gather", 0, at(0));
  for (int i = 0; i < 10; ++i) {
    log.start(tp, "sum", 0, at(10 * i));
    log.finish(tp, at(10 * i + 1));
  }
  BOOST_TEST((log.standstill(at(100)) == seconds(9)));
}

BOOST_AUTO_TEST_CASE(a_call_that_was_not_begun_cannot_finish) {
  CallLog log({"tp"});
  BOOST_CHECK_THROW(log.finish(tp, at(0)), std::logic_error);
}

BOOST_AUTO_TEST_CASE(the_words_name_each_group_its_last_call_number_bytes_and_age) {
  CallLog log({"tp", "fsdp", "sp"});
  for (int i = 0; i < 3; ++i) {
    log.start(tp, "ncclAllReduce", mebibyte, at(i));
    log.finish(tp, at(i));
  }
  log.start(fsdp, "ncclAllGather", 3 * mebibyte, at(10));
  log.start(fsdp, "ncclReduceScatter", 5 * mebibyte, at(20));
  log.finish(fsdp, at(20));
  log.start(fsdp, "ncclAllGather", mebibyte, at(21));
  log.start(fsdp, "ncclAllGather", mebibyte, at(22));
  BOOST_TEST(log.describe(at(80)) ==
             "group fsdp waits in call 2, ncclReduceScatter of 5.0 MiB, for 60 s, with 2 calls behind it; group tp "
             "finished all its 3 calls, the last was ncclAllReduce; group sp finished all its 0 calls");
}

BOOST_AUTO_TEST_CASE(the_thread_tells_of_a_standstill_once) {
  std::promise<std::string> told;
  Watchdog watchdog({"tp"}, 0.05, {{}, [&](const std::string& standstill) { told.set_value(standstill); }});
  watchdog.start(0, "ncclAllReduce", 4);
  std::future<std::string> words = told.get_future();
  BOOST_TEST_REQUIRE((words.wait_for(seconds(60)) == std::future_status::ready));
  BOOST_TEST(words.get().starts_with("group tp waits in call 1, ncclAllReduce of 4 B"));
}

BOOST_AUTO_TEST_CASE(what_was_finished_unnoticed_is_asked_for_before_anybody_is_told) {
  std::atomic<int> num_told = 0, num_asked = 0;
  Watchdog* self = nullptr;
  Watchdog watchdog({"tp"}, 0.05,
                    {[&] {
                       ++num_asked;
                       self->finish(0);
                       self->start(0, "next", 0);
                     },
                     [&](const std::string&) { ++num_told; }});
  self = &watchdog;
  watchdog.start(0, "first", 0);
  while (num_asked < 5) std::this_thread::yield();
  BOOST_TEST(num_told == 0);
}

BOOST_AUTO_TEST_CASE(nobody_is_told_where_everything_moves_or_nobody_looks) {
  std::atomic<int> num_told = 0;
  const Watchdog::Hooks hooks{{}, [&](const std::string&) { ++num_told; }};
  {
    Watchdog idle({"tp"}, 0.01, hooks);
    Watchdog without_end({"tp"}, 0, hooks);
    idle.start(0, "a", 0);
    idle.finish(0);
    without_end.start(0, "a", 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  BOOST_TEST(num_told == 0);
}

}  // namespace sft::comm
