// SPDX-License-Identifier: Apache-2.0
// Where a run's time went, over restarts and kills, by what the processes before left.

#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "sft/train/goodput.hpp"
#include "sft/train/metrics.hpp"

using namespace sft;
using train::Goodput;
using train::TimeNote;
using train::TimeUse;

namespace {

std::string line_of(const TimeNote& note) {
  train::StepMetrics metrics;
  metrics.step = note.step;
  metrics.time = note;
  return train::to_json(metrics) + "\n";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_of_one_process) {
  Goodput goodput(100.0);
  BOOST_TEST(goodput.at(103.0).restart_s == 3.0);  // it is still starting
  goodput.begin_steps(105.0);
  goodput.add_step(60.0);
  goodput.add_evaluation(10.0);
  goodput.add_save(20.0);
  const TimeUse use = goodput.at(200.0);
  BOOST_TEST((use == TimeUse{.total_s = 100, .useful_s = 60, .save_s = 20, .evaluation_s = 10, .restart_s = 5}));
  BOOST_TEST(use.goodput() == 0.6);
  BOOST_TEST(use.other_s() == 5.0);
  BOOST_TEST(goodput.describe_resume() == "");
  const std::vector<std::string> lines{"60.0 % of 1:40 since the first start",
                                       "saves 20.0 %, evaluations 10.0 %, start 5.0 %, other 5.0 %"};
  BOOST_TEST(describe(use) == lines, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_killed_run_repeats_what_came_after_its_checkpoint) {
  const std::string run = "the run";
  std::string starts, metrics;
  // Steps of 1 s. The first process saves after step 30 and is killed some time after the line of step 50.
  Goodput first(1000.0);
  starts += to_json(first.note(1001.0, 0), run) + "\n";
  first.begin_steps(1010.0);
  for (int step = 0; step < 30; ++step) first.add_step(1.0);
  const std::string saved = to_json(first.note(1040.0, 30), run);
  first.add_save(2.0);
  for (int step = 30; step < 50; ++step) first.add_step(1.0);
  metrics += line_of(first.note(1062.0, 50));

  // The second starts 38 s later, begins its steps 41 s after that line, and is killed after step 40.
  const auto go_on = [&](double process_start_s) {
    Goodput goodput(process_start_s);
    goodput.resume(30, train::parse_time_note(saved), train::last_start_of(run, starts), train::last_line_of(metrics));
    starts += to_json(goodput.note(process_start_s + 1.0, 30), run) + "\n";
    return goodput;
  };
  Goodput second = go_on(1100.0);
  second.begin_steps(1103.0);
  BOOST_TEST(second.describe_resume() == "resumed after 41.00 s, 20 steps repeated");
  for (int step = 30; step < 40; ++step) second.add_step(1.0);
  metrics = line_of(second.note(1113.0, 40));  // those behind step 30 were dropped

  // The third is killed before its first step, the fourth goes to the end, step 60.
  static_cast<void>(go_on(1120.0));
  Goodput fourth = go_on(1130.0);
  fourth.begin_steps(1133.0);
  BOOST_TEST(fourth.describe_resume() == "resumed after 12.00 s, 0 steps repeated");  // of the third
  for (int step = 30; step < 60; ++step) fourth.add_step(1.0);
  const TimeUse use = fourth.at(1163.0);
  const TimeUse expected{.total_s = 163,
                         .useful_s = 60,
                         .save_s = 2,
                         .restart_s = 10 + 41 + 8 + 12,
                         .repeated_s = 20 + 10,
                         .num_repeated_steps = 20 + 10,
                         .num_restarts = 3};
  BOOST_TEST((use == expected), describe(use).front());
  BOOST_TEST(use.other_s() == 0.0);
  BOOST_TEST(describe(use).front().ends_with("; 3 restarts, 30 steps repeated"));
}

BOOST_AUTO_TEST_CASE(a_run_that_saved_last_repeats_nothing) {
  Goodput first(0.0);
  first.begin_steps(1.0);
  first.add_step(9.0);
  const std::string metrics = line_of(first.note(10.0, 3));
  const TimeNote saved = first.note(12.0, 3);
  Goodput second(20.0);
  second.resume(3, saved, std::nullopt, train::last_line_of(metrics));
  second.begin_steps(22.0);
  BOOST_TEST(second.describe_resume() == "resumed after 10.00 s, 0 steps repeated");
  BOOST_TEST(second.at(22.0).useful_s == 9.0);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_an_earlier_version_knows_nothing) {
  Goodput goodput(50.0);
  goodput.resume(3, train::parse_time_note(""), train::last_start_of("x", ""), train::last_line_of("{\"step\":7}\n"));
  goodput.begin_steps(55.0);
  BOOST_TEST((goodput.at(60.0) == TimeUse{.total_s = 10, .restart_s = 5, .num_restarts = 1}));
}

BOOST_AUTO_TEST_CASE(a_clock_that_was_set_back_makes_no_time_negative) {
  Goodput first(1e6);
  first.begin_steps(1e6 + 1);
  first.add_step(100.0);
  const TimeNote saved = first.note(1e6 + 101, 5);
  Goodput second(500.0);
  second.resume(5, saved, std::nullopt, std::nullopt);
  second.begin_steps(503.0);
  const TimeUse use = second.at(510.0);
  BOOST_TEST(use.restart_s == 1.0 + 3.0);
  BOOST_TEST(use.total_s == 104.0);
  BOOST_TEST(use.goodput() <= 1.0);
}

BOOST_AUTO_TEST_CASE(notes_of_other_runs_and_broken_lines_are_none) {
  const TimeNote note{5.0, 3, {.total_s = 4, .useful_s = 3, .num_restarts = 2}};
  const std::string starts =
      to_json(note, "a") + "\n" + train::to_json({6.0, 4, {}}, "b") + "\nno JSON\n{\"run_id\":\"a\",\"ti";
  const auto found = train::last_start_of("a", starts);
  BOOST_TEST_REQUIRE(found.has_value());
  BOOST_TEST(found->time_s == 5.0);
  BOOST_TEST(found->step == 3);
  BOOST_TEST((found->use == note.use));
  BOOST_TEST(!train::last_start_of("c", starts));
  BOOST_TEST(!train::parse_time_note("{\"time\":1,\"step\":\"x\"}"));
  BOOST_TEST(!train::parse_time_note("[]"));
}

BOOST_AUTO_TEST_CASE(the_launcher_may_know_of_more_restarts) {
  Goodput goodput(0.0);
  const auto launched = [](const char* text) {
    setenv("SFT_RESTARTS", text, 1);
    return train::launched_restarts();
  };
  BOOST_TEST(launched("3") == 3);
  BOOST_TEST(launched("") == 0);
  BOOST_TEST(launched("-1") == 0);
  BOOST_TEST(launched("two") == 0);
  unsetenv("SFT_RESTARTS");
  BOOST_TEST(train::launched_restarts() == 0);
  goodput.count_restarts(3);
  goodput.count_restarts(1);
  BOOST_TEST(goodput.at(1.0).num_restarts == 3);
}
