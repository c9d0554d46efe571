// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "support/temporary_folder.hpp"
#include "train/summary.hpp"

using namespace sft;

namespace {

train::RunSummary example() {
  return {.is_done = true,
          .step = 1400,
          .last_step = 1400,
          .epoch = 26.107,
          .time_s = 472.4,
          .step_time_s = 471.0,
          .num_steps = 1400,
          .num_tokens = 2786000,
          .losses = {.first = {{20, 4.567994}},
                     .last = {{1400, 0.07457}},
                     .first_eval = {{0, 5.54527}},
                     .last_eval = {{1400, 2.4705}},
                     .best = {{600, 1.4136}}},
          .memory = {.peak_bytes = 477U << 20U, .planned_bytes = 481U << 20U, .rank = 3},
          .next = {"./sft-generate output/model --chat", "postprocess/plot_loss.py output"}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_summary_says_what_came_of_a_run) {
  BOOST_TEST(describe(example()) ==
             "done in 7:52\n"
             "  steps        1400 of 1400 steps, 26.1 epochs; 2.79 M tokens, 5.92 k tokens/s\n"
             "  loss         4.56799 at step 20, 0.07457 at step 1400\n"
             "  eval loss    5.54527 at step 0, 2.47050 at step 1400, lowest 1.41360 at step 600\n"
             "  plan vs run  planned 481.0 MiB, peak 477.0 MiB on rank 3\n"
             "  next         ./sft-generate output/model --chat\n"
             "               postprocess/plot_loss.py output");
}

BOOST_AUTO_TEST_CASE(a_stopped_run_that_went_on_counts_its_own_steps) {
  train::RunSummary summary = example();
  summary.is_done = false;
  summary.step = 900;
  summary.num_steps = 400;
  summary.losses.last_eval = summary.losses.best;
  const std::string text = describe(summary);
  BOOST_TEST(text.starts_with("stopped after 7:52\n"));
  BOOST_TEST(text.find("900 of 1400 steps, 26.1 epochs; 2.79 M tokens since step 500, ") != std::string::npos);
  BOOST_TEST(text.find("lowest") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_summary_says_how_much_of_the_time_was_of_use) {
  train::RunSummary summary = example();
  summary.goodput = {"97.1 % of 8:06 since the first start", "saves 2.9 %"};
  BOOST_TEST(describe(summary).find(
                 "\n  goodput      97.1 % of 8:06 since the first start\n               saves 2.9 %\n  plan vs run") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_step_that_was_planned_is_told_beside_what_it_took) {
  train::RunSummary summary = example();
  summary.planned_step_s = 3.1;
  summary.took_step_s = 3.324;
  BOOST_TEST(describe(summary).find("peak 477.0 MiB on rank 3; planned 3.1 s a step, took 3.32 s\n") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_a_run_does_not_have_has_no_line) {
  train::RunSummary summary = example();
  summary.losses = {};
  summary.next = {};
  summary.num_steps = 0;  // evaluated alone
  const std::string text = describe(summary);
  BOOST_TEST(text.find("loss") == std::string::npos);
  BOOST_TEST(text.find("next") == std::string::npos);
  BOOST_TEST(text.find("tokens") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(losses_are_those_of_the_whole_file) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  BOOST_TEST(!train::read_loss_course(path).first.has_value());
  std::ofstream(path) << "{\"step\":0,\"eval_loss\":5.0}\n{\"step\":10,\"loss\":4.0}\n{\"step\":10,\"eval_loss\":1.5}\n"
                      << "{\"step\":20,\"loss\":2.0}\n{\"step\":20,\"eval_loss\":2.5}\n{\"step\":30,\"lo";
  const train::LossCourse course = train::read_loss_course(path);
  BOOST_TEST(course.first->step == 10);
  BOOST_TEST(course.first->loss == 4.0);
  BOOST_TEST(course.last->step == 20);
  BOOST_TEST(course.first_eval->loss == 5.0);
  BOOST_TEST(course.last_eval->loss == 2.5);
  BOOST_TEST(course.best->step == 10);
}
