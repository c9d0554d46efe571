// SPDX-License-Identifier: Apache-2.0
// Evaluation by the whole program: it leaves training alone to the last bit, comes when it is due, before and after a
// restart, and ends a run in the right way when it cannot be done.

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "sft/config/values.hpp"
#include "trainer/program.hpp"
#include "trainer/workshop.hpp"

namespace {

using namespace sft;
using test::check_done;
using test::check_equal;
using test::everyday_cases;
using test::other_cases;
using test::run_cases;
using test::RunCase;
using test::Workshop;
namespace fs = std::filesystem;
using Evaluations = std::map<std::int64_t, test::LoggedEvaluation>;

/// A folder with rows to evaluate on too: 13, which no mesh divides, of 40 tokens, fewer than the rows trained on have.
struct EvalWorkshop : Workshop {
  EvalWorkshop() { write_eval_rows(test::make_awkward_rows(13, 40, 5)); }

  void write_eval_rows(const std::vector<rows::Row>& rows) const {
    test::write_packed_file(path("eval.h5"), rows, test::small_vocab_size);
  }

  /// What a configuration needs for it.
  [[nodiscard]] auto evaluating(std::int64_t eval_steps, bool on_start = false) const {
    return [this, eval_steps, on_start](config::Config& config) {
      config.data.eval_files = {path("eval.h5")};
      config.train.eval_steps = eval_steps;
      config.train.eval_on_start = on_start;
    };
  }

  [[nodiscard]] Evaluations evaluations_of(const std::string& output) const {
    return test::read_evaluations(path(output));
  }
};

std::vector<std::int64_t> steps_of(const Evaluations& evaluations) {
  std::vector<std::int64_t> steps;
  for (const auto& [step, evaluation] : evaluations) steps.push_back(step);
  return steps;
}

using Steps = std::vector<std::int64_t>;

void check_evaluated_run(const RunCase& run) {
  const EvalWorkshop workshop;
  constexpr std::int64_t max_steps = 6;  // saves steps 3 and 6
  test::TrainerProgram plain = workshop.start(run, "plain", max_steps, "none");
  check_done(plain, workshop, "plain");
  test::TrainerProgram evaluated = workshop.start(run, "evaluated", max_steps, "none", workshop.evaluating(1, true));
  check_done(evaluated, workshop, "evaluated");
  check_equal(workshop, "plain", "evaluated", max_steps);
  const Evaluations whole = workshop.evaluations_of("evaluated");
  BOOST_TEST(steps_of(whole) == (Steps{0, 1, 2, 3, 4, 5, 6}), boost::test_tools::per_element());

  // As if it had been killed after its checkpoint of half the way.
  fs::remove_all(checkpoint::path_of(workshop.path("evaluated"), max_steps));
  test::TrainerProgram resumed = workshop.start(run, "evaluated", max_steps, "auto", workshop.evaluating(1, true));
  check_done(resumed, workshop, "evaluated");
  check_equal(workshop, "plain", "evaluated", max_steps);
  BOOST_TEST((workshop.evaluations_of("evaluated") == whole));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(evaluation)

BOOST_DATA_TEST_CASE(an_evaluated_run_trains_like_one_that_is_not_and_goes_on_as_it_was, everyday_cases(), run) {
  check_evaluated_run(run);
}

BOOST_AUTO_TEST_CASE(evaluations_come_by_steps_and_at_the_end) {
  const EvalWorkshop workshop;
  const auto steps_with = [&](const std::string& output, std::int64_t max_steps, std::int64_t eval_steps) {
    test::TrainerProgram program =
        workshop.start(run_cases[0], output, max_steps, "auto", workshop.evaluating(eval_steps));
    check_done(program, workshop, output);
    return steps_of(workshop.evaluations_of(output));
  };
  BOOST_TEST(steps_with("some", 5, 2) == (Steps{2, 4, 5}), boost::test_tools::per_element());
  BOOST_TEST(steps_with("end", 4, 0) == (Steps{4}), boost::test_tools::per_element());
  BOOST_TEST(steps_with("weights_of_the_start", 0, 0) == (Steps{0}), boost::test_tools::per_element());
  BOOST_TEST(steps_with("end", 4, 0) == (Steps{4}), boost::test_tools::per_element());  // nothing is left to do
}

BOOST_AUTO_TEST_CASE(none_comes_before_eval_delay) {
  const EvalWorkshop workshop;
  const auto steps_with = [&](const std::string& output, const char* strategy, double delay) {
    const auto change = [&](config::Config& config) {
      workshop.evaluating(1)(config);
      config::read(strategy, config.train.eval_strategy);
      config.train.eval_delay = delay;
    };
    test::TrainerProgram program = workshop.start(run_cases[0], output, 5, "none", change);
    check_done(program, workshop, output);
    return steps_of(workshop.evaluations_of(output));
  };
  BOOST_TEST(steps_with("steps", "steps", 3) == (Steps{3, 4, 5}), boost::test_tools::per_element());
  BOOST_TEST(steps_with("epochs", "epoch", 1e3) == (Steps{5}), boost::test_tools::per_element());  // at the end
}

BOOST_AUTO_TEST_CASE(a_finished_run_is_evaluated_when_there_are_rows_for_it) {
  const EvalWorkshop workshop;
  test::TrainerProgram plain = workshop.start(run_cases[0], "run", 4, "none");
  check_done(plain, workshop, "run");
  const auto trained = test::read_metrics(workshop.path("run"));
  for (int time = 0; time < 2; ++time) {  // the second one takes the place of the first
    test::TrainerProgram again = workshop.start(run_cases[0], "run", 4, "auto", workshop.evaluating(0));
    check_done(again, workshop, "run");
    BOOST_TEST(steps_of(workshop.evaluations_of("run")) == (Steps{4}), boost::test_tools::per_element());
  }
  BOOST_TEST((test::read_metrics(workshop.path("run")) == trained));
}

BOOST_AUTO_TEST_CASE(the_loss_is_that_of_training_on_the_same_rows) {
  const EvalWorkshop workshop;
  workshop.write_eval_rows(test::make_awkward_rows(31, 96, 3));  // those of training
  const auto on_all_rows = [&](config::Config& config) {
    workshop.evaluating(1, true)(config);
    config.train.gradient_accumulation_steps = 31;
    config.optimizer.learning_rate = 0.0;
  };
  test::TrainerProgram program = workshop.start(run_cases[0], "run", 1, "none", on_all_rows);
  check_done(program, workshop, "run");
  const test::LoggedStep step = test::read_metrics(workshop.path("run")).at(1);
  for (const auto& [at, evaluation] : workshop.evaluations_of("run")) {
    BOOST_TEST_CONTEXT("step " << at) {
      BOOST_TEST(evaluation.loss == step.loss, boost::test_tools::tolerance(1e-12));
      BOOST_TEST(evaluation.entropy == step.entropy, boost::test_tools::tolerance(1e-12));
      BOOST_TEST(evaluation.mean_token_accuracy == step.mean_token_accuracy, boost::test_tools::tolerance(1e-12));
      BOOST_TEST(evaluation.num_target_tokens == step.num_target_tokens);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_signal_cuts_an_evaluation_short_and_the_next_run_makes_up_for_it) {
  const EvalWorkshop workshop;
  workshop.write_eval_rows(test::make_awkward_rows(6000, 96, 5));  // seconds
  test::TrainerProgram stopped = workshop.start(run_cases[0], "run", 4, "none", workshop.evaluating(1));
  while (stopped.is_running() && test::read_metrics(workshop.path("run")).empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  stopped.send(SIGUSR1);
  BOOST_TEST(stopped.wait() == static_cast<int>(ExitStatus::stopped), workshop.log_of("run"));
  BOOST_TEST(test::read_metrics(workshop.path("run")).size() == 1U);
  BOOST_TEST(workshop.evaluations_of("run").empty());
  BOOST_TEST(fs::exists(checkpoint::path_of(workshop.path("run"), 1)));

  workshop.write_eval_rows(test::make_awkward_rows(13, 40, 5));
  test::TrainerProgram resumed = workshop.start(run_cases[0], "run", 4, "auto", workshop.evaluating(1));
  check_done(resumed, workshop, "run");
  BOOST_TEST(steps_of(workshop.evaluations_of("run")) == (Steps{1, 2, 3, 4}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rows_found_damaged_end_the_run_with_what_it_learned_saved) {
  const EvalWorkshop workshop;
  std::vector<rows::Row> rows = test::make_awkward_rows(13, 96, 5);
  rows[7].tokens[0] = test::small_vocab_size;
  workshop.write_eval_rows(rows);
  test::TrainerProgram late = workshop.start(run_cases[1], "late", 8, "none", workshop.evaluating(3));
  BOOST_TEST(late.wait() == static_cast<int>(ExitStatus::data), workshop.log_of("late"));
  BOOST_TEST(workshop.log_of("late").find("eval.h5") != std::string::npos, workshop.log_of("late"));
  BOOST_TEST(test::read_metrics(workshop.path("late")).size() == 3U);
  BOOST_TEST(fs::exists(checkpoint::path_of(workshop.path("late"), 3)));
  // Nothing was learned yet.
  test::TrainerProgram early = workshop.start(run_cases[1], "early", 8, "none", workshop.evaluating(3, true));
  BOOST_TEST(early.wait() == static_cast<int>(ExitStatus::data), workshop.log_of("early"));
  BOOST_TEST(checkpoint::list(workshop.path("early")).empty());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(evaluation_on_other_meshes)

BOOST_DATA_TEST_CASE(an_evaluated_run_trains_like_one_that_is_not_and_goes_on_as_it_was, other_cases(), run) {
  check_evaluated_run(run);
}

BOOST_AUTO_TEST_SUITE_END()
