// SPDX-License-Identifier: Apache-2.0
// Schedules by the whole program: what a rate follows from beside the step goes on across a restart, bit for bit.

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "trainer/program.hpp"
#include "trainer/workshop.hpp"

namespace {

using namespace sft;
using test::check_done;
using test::check_equal;
using test::run_cases;
using test::RunCase;
namespace fs = std::filesystem;
using Change = std::function<void(config::Config&)>;

constexpr double peak = 0x1p-9;  // halves of it are exact
constexpr std::int64_t max_steps = 12;

/// Runs of 12 steps with a schedule; checkpoints of steps 7 and 12.
struct ScheduleWorkshop : test::EvaluationWorkshop {
  void train(const RunCase& run, const std::string& output, const std::string& resume, const Change& schedule,
             std::int64_t num_steps = max_steps) const {
    test::TrainerProgram program = start(run, output, num_steps, resume, [&](config::Config& config) {
      config.checkpoint.save_steps = 7;
      config.optimizer.learning_rate = peak;
      schedule(config);
    });
    check_done(program, *this, output);
  }

  /// Trains at once, and again as if it had been killed after step 7. The rates of all steps, and by the log both are
  /// the same in everything.
  std::vector<double> rates_of(const RunCase& run, const Change& schedule) const {
    train(run, "whole", "none", schedule);
    train(run, "parts", "none", schedule);
    fs::remove_all(checkpoint::path_of(path("parts"), max_steps));
    train(run, "parts", "auto", schedule);
    check_equal(*this, "whole", "parts", max_steps);
    BOOST_TEST(state_of("whole", max_steps) == state_of("parts", max_steps));
    return logged_rates("whole");
  }

  [[nodiscard]] std::vector<double> logged_rates(const std::string& output) const {
    std::vector<double> rates;
    for (const auto& [step, metrics] : test::read_metrics(path(output))) rates.push_back(metrics.learning_rate);
    return rates;
  }

  [[nodiscard]] std::string state_of(const std::string& output, std::int64_t step) const {
    return checkpoint::read_header(checkpoint::path_of(path(output), step)).position.schedule;
  }

  /// reduce_lr_on_plateau with these kwargs, evaluated every `eval_steps`.
  [[nodiscard]] Change plateau(const config::SchedulerKwargs& kwargs, std::int64_t eval_steps) const {
    return [=, this](config::Config& config) {
      config.data.eval_files = {path("eval.h5")};
      config.train.eval_steps = eval_steps;
      config.train.eval_on_start = true;
      config.optimizer.lr_scheduler_type = config::Scheduler::reduce_lr_on_plateau;
      config.optimizer.lr_scheduler_kwargs = kwargs;
    };
  }
};

const std::vector<RunCase> some_runs{run_cases[0], run_cases[1]};

/// With this no loss is better than the best one.
constexpr double unreachable = 1.0;

}  // namespace

BOOST_AUTO_TEST_SUITE(schedules)

BOOST_DATA_TEST_CASE(a_plateau_is_counted_on_across_a_restart, boost::unit_test::data::make(some_runs), run) {
  const ScheduleWorkshop workshop;
  const std::vector<double> rates = workshop.rates_of(
      run, workshop.plateau({.factor = 0.5, .threshold = unreachable, .patience = 1, .cooldown = 1}, 1));
  // It falls after the evaluations of steps 2, 5, 8 and 11; that before the first step does not count.
  const std::vector<double> expected{peak,     peak,     peak / 2, peak / 2, peak / 2, peak / 4,
                                     peak / 4, peak / 4, peak / 8, peak / 8, peak / 8, peak / 16};
  BOOST_TEST(rates == expected, boost::test_tools::per_element());
  BOOST_TEST(workshop.state_of("whole", 7).find("best inf num_bad_epochs 1 cooldown_counter 0 last_epoch 7") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_best_loss_is_remembered_across_a_restart) {
  const ScheduleWorkshop workshop;
  const std::vector<double> rates =
      workshop.rates_of(run_cases[0], workshop.plateau({.factor = 0.7, .threshold = 0.02, .patience = 0}, 1));
  BOOST_TEST(std::set<double>(rates.begin(), rates.end()).size() > 2U);
  BOOST_TEST(workshop.state_of("whole", 7).find("best inf") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_longer_run_goes_on_as_if_it_had_been_begun_so) {
  const ScheduleWorkshop workshop;
  const Change schedule = workshop.plateau({.factor = 0.5, .threshold = unreachable, .patience = 0}, 4);
  workshop.train(run_cases[0], "whole", "none", schedule);
  workshop.train(run_cases[0], "parts", "none", schedule, 6);  // evaluated at its end, too
  workshop.train(run_cases[0], "parts", "auto", schedule);
  check_equal(workshop, "whole", "parts", max_steps);
  BOOST_TEST(workshop.logged_rates("whole").back() == peak / 4);
}

BOOST_AUTO_TEST_CASE(a_stable_rate_decays_across_a_restart) {
  const ScheduleWorkshop workshop;
  const std::vector<double> rates = workshop.rates_of(run_cases[0], [](config::Config& config) {
    config.optimizer.lr_scheduler_type = config::Scheduler::warmup_stable_decay;
    config.optimizer.lr_scheduler_kwargs = {
        .num_decay_steps = 6, .decay_type = config::Curve::linear, .min_lr_ratio = 0.5};
    config.optimizer.warmup_ratio = 0.2;
  });
  BOOST_TEST(workshop.log_of("whole").find("warm-up takes 3 steps") != std::string::npos, workshop.log_of("whole"));
  BOOST_TEST(rates[0] == peak / 2);
  for (std::size_t i = 3; i < 7; ++i) BOOST_TEST(rates[i] == peak);
  for (std::size_t i = 7; i < rates.size(); ++i) BOOST_TEST(rates[i] < rates[i - 1]);
  BOOST_TEST(workshop.state_of("whole", 7).empty());
}

BOOST_AUTO_TEST_SUITE_END()
