// SPDX-License-Identifier: Apache-2.0
// What is told of calls on a GPU, by a clock of the test's own.
#include "comm/call_log.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <stdexcept>
#include <string>

#include "sft/core/activity.hpp"

namespace sft::comm {

namespace {

/// Seconds since some moment.
CallLog::Time at(int time_s) { return CallLog::Time() + std::chrono::seconds(1000 + time_s); }

constexpr std::size_t tp = 0, fsdp = 1;
constexpr std::size_t mebibyte = std::size_t{1} << 20U;

}  // namespace

BOOST_AUTO_TEST_SUITE(call_log)

BOOST_AUTO_TEST_CASE(nothing_is_told_of_groups_without_a_call_under_way) {
  CallLog log({"tp", "fsdp"});
  BOOST_TEST(log.describe(at(5)) == "");
  log.start(tp, "a", 0, at(6));
  log.finish(tp);
  BOOST_TEST(log.describe(at(7)) == "");
  BOOST_TEST(CallLog({}).describe(at(8)) == "");
}

BOOST_AUTO_TEST_CASE(a_call_that_was_not_begun_cannot_finish) {
  CallLog log({"tp"});
  BOOST_CHECK_THROW(log.finish(tp), std::logic_error);
}

BOOST_AUTO_TEST_CASE(the_words_name_each_group_its_last_call_number_bytes_and_age) {
  CallLog log({"tp", "fsdp", "sp"});
  for (int i = 0; i < 3; ++i) {
    log.start(tp, "ncclAllReduce", mebibyte, at(i));
    log.finish(tp);
  }
  log.start(fsdp, "ncclAllGather", 3 * mebibyte, at(10));
  log.start(fsdp, "ncclReduceScatter", 5 * mebibyte, at(20));
  log.finish(fsdp);
  log.start(fsdp, "ncclAllGather", mebibyte, at(21));
  log.start(fsdp, "ncclAllGather", mebibyte, at(22));
  BOOST_TEST(log.describe(at(80)) ==
             "group fsdp waits in call 2, ncclReduceScatter of 5.0 MiB, for 60 s, with 2 calls behind it; group tp "
             "finished all its 3 calls, the last was ncclAllReduce; group sp finished all its 0 calls");
}

BOOST_AUTO_TEST_CASE(a_call_that_begins_or_ends_is_progress) {
  CallLog log({"tp"});
  const std::uint64_t before = progress();
  log.start(tp, "a", 0);
  const std::uint64_t begun = progress();
  BOOST_TEST(begun > before);
  log.finish(tp);
  BOOST_TEST(progress() > begun);
}

BOOST_AUTO_TEST_CASE(probes_are_asked_until_they_are_removed) {
  const int first = 0, second = 0;
  add_call_probe(&first, [] { return std::string("one"); });
  add_call_probe(&second, [] { return std::string("two"); });
  BOOST_TEST(ask_call_probes() == "onetwo");
  remove_call_probe(&first);
  BOOST_TEST(ask_call_probes() == "two");
  remove_call_probe(&second);
  BOOST_TEST(ask_call_probes() == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::comm
