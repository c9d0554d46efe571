// SPDX-License-Identifier: Apache-2.0
// Best evaluations and early stopping as transformers decides them (decisions.txt, by make_decisions.py), and which
// checkpoint is the best.

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "sft/config/values.hpp"
#include "support/temporary_folder.hpp"
#include "train/best_model.hpp"

using namespace sft;
namespace fs = std::filesystem;

namespace {

train::EvalResult result_with(config::EvalMetric metric, double value) {
  train::EvalResult result{.loss = -1.0, .mean_token_accuracy = -1.0, .entropy = -1.0};
  (metric == config::EvalMetric::loss                  ? result.loss
   : metric == config::EvalMetric::mean_token_accuracy ? result.mean_token_accuracy
                                                       : result.entropy) = value;
  return result;
}

config::Train by_loss() {
  config::Train train;
  train.metric_for_best_model = config::EvalMetric::loss;
  train.greater_is_better = false;
  return train;
}

}  // namespace

BOOST_AUTO_TEST_CASE(evaluations_are_judged_as_transformers_judges_them) {
  std::ifstream file(SFT_SOURCE_DIR "/tests/unit/train/decisions.txt");
  config::Train train;
  checkpoint::Decisions decisions;
  std::int64_t step = 0, num_cases = 0;
  bool has_stopped = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (line.starts_with("case ")) {
      std::string word, metric, greater;
      words >> word >> metric >> greater >> train.early_stopping_patience >> train.early_stopping_threshold;
      train.metric_for_best_model.emplace();
      config::read(metric, *train.metric_for_best_model);
      train.greater_is_better = greater == "true";
      decisions = {};
      step = 0;
      has_stopped = false;
      ++num_cases;
      continue;
    }
    double value = 0.0, best_metric = 0.0;
    std::int64_t best_step = 0;
    int stops = 0;
    BOOST_TEST_REQUIRE(static_cast<bool>(words >> value >> best_metric >> best_step >> stops), line);
    ++step;
    const bool is_best = train::judge(train, result_with(*train.metric_for_best_model, value), step, decisions);
    has_stopped = has_stopped || train::must_stop_early(train, decisions);
    BOOST_TEST_CONTEXT("case " << num_cases << ", evaluation " << step) {
      BOOST_TEST(is_best == (best_step == step));
      BOOST_TEST(*decisions.best_metric == best_metric);
      BOOST_TEST(decisions.best_step == best_step);
      BOOST_TEST(has_stopped == (stops == 1));
    }
  }
  BOOST_TEST(num_cases == 20);
}

BOOST_AUTO_TEST_CASE(without_a_metric_nothing_is_judged_and_without_patience_nothing_stops) {
  checkpoint::Decisions decisions;
  BOOST_TEST(!train::judge({}, {.loss = 1.0}, 3, decisions));
  BOOST_TEST(!decisions.best_metric);
  const config::Train train = by_loss();
  for (const double loss : {1.0, 2.0, 3.0, 4.0}) (void)train::judge(train, {.loss = loss}, 1, decisions);
  BOOST_TEST(decisions.num_worse_evaluations == 3);
  BOOST_TEST(!train::must_stop_early(train, decisions));
}

BOOST_AUTO_TEST_CASE(the_best_checkpoint_is_the_last_one_that_was_saved_with_the_best_weights) {
  const config::Train train = by_loss();
  checkpoint::Decisions decisions;
  (void)train::judge(train, {.loss = 3.0}, 2, decisions);
  train::note_saved(2, "output/run/checkpoint-000002", decisions);
  BOOST_TEST(decisions.best_checkpoint == "checkpoint-000002");
  BOOST_TEST(train::describe_best(train, decisions) == "checkpoint-000002 (eval_loss 3.00000)");
  (void)train::judge(train, {.loss = 2.0}, 3, decisions);
  train::note_saved(4, "output/run/checkpoint-000004", decisions);
  BOOST_TEST(decisions.best_checkpoint == "checkpoint-000002");
  BOOST_TEST(train::describe_best(train, decisions) ==
             "checkpoint-000002 (step 3 was better, eval_loss 2.00000, but was not saved)");
  BOOST_TEST(train::best_folder("output/run", decisions) == "output/run/checkpoint-000002");
  BOOST_TEST(train::best_folder("output/run", {}) == "");
}

BOOST_AUTO_TEST_CASE(a_resumed_run_finds_the_best_checkpoint_or_says_that_it_is_gone) {
  const test::TemporaryFolder folder;
  const std::string here = folder.file("run"), there = folder.file("other");
  fs::create_directories(here + "/checkpoint-000002");
  fs::create_directories(there);
  const checkpoint::Decisions saved{.best_metric = 1.0, .best_step = 2, .best_checkpoint = "checkpoint-000002"};
  const std::string resumed = here + "/checkpoint-000004/";
  BOOST_TEST(train::find_best_checkpoint(here, resumed, saved) == "checkpoint-000002");
  // From another folder it is known by its path, also after the next restart.
  const std::string path = train::find_best_checkpoint(there, resumed, saved);
  BOOST_TEST(fs::equivalent(path, here + "/checkpoint-000002"));
  checkpoint::Decisions far = saved;
  far.best_checkpoint = path;
  BOOST_TEST(train::find_best_checkpoint(there, there + "/checkpoint-000006", far) == path);
  BOOST_TEST(train::best_folder(there, far) == path);
  BOOST_TEST(train::find_best_checkpoint(here, resumed, {}) == "");
  fs::remove_all(here + "/checkpoint-000002");
  BOOST_TEST(train::find_best_checkpoint(here, resumed, saved) == "");
}

BOOST_AUTO_TEST_CASE(early_stopping_says_why) {
  config::Train train = by_loss();
  train.early_stopping_patience = 2;
  train.early_stopping_threshold = 0.25;
  const checkpoint::Decisions decisions{.best_metric = 1.5, .best_step = 40, .num_worse_evaluations = 2};
  BOOST_TEST(train::describe_early_stop(train, decisions) ==
             "eval_loss has not improved on 1.50000, that of step 40, by more than 0.25 for 2 evaluations");
}
