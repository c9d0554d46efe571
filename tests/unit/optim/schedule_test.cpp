// SPDX-License-Identifier: Apache-2.0
// Schedules against what transformers and torch have (make_rates.py).
#include "sft/optim/schedule.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sft/config/parse.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/config/values.hpp"
#include "support/config_error.hpp"

using namespace sft;
using config::Scheduler;

namespace {

/// The fields between the bars of the lines of rates.txt that begin with `kind`, without it.
std::vector<std::vector<std::string>> recorded(const std::string& kind) {
  std::ifstream file(SFT_SOURCE_DIR "/tests/unit/optim/rates.txt");
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kind + " | ")) continue;
    std::vector<std::string>& fields = lines.emplace_back();
    const std::string bar = " | ";
    for (std::size_t begin = kind.size() + bar.size(), end = 0; end != std::string::npos; begin = end + bar.size()) {
      end = line.find(bar, begin);
      fields.push_back(line.substr(begin, end - begin));
    }
  }
  BOOST_TEST_REQUIRE(!lines.empty());
  return lines;
}

std::vector<double> numbers_in(const std::string& text) {
  std::istringstream words(text);
  std::vector<double> numbers;
  for (std::string word; words >> word;) numbers.push_back(std::strtod(word.c_str(), nullptr));
  return numbers;
}

/// That of a run with such a schedule, validated; `more` are further lines of [optimizer].
config::Optimizer optimizer_of(const std::string& type, const std::string& kwargs, const std::string& rate,
                               const std::string& more = "") {
  const config::Config config = config::parse(
      "[model]\nhidden_size = 32\nnum_hidden_layers = 2\nnum_attention_heads = 4\nintermediate_size = 64\n"
      "vocab_size = 64\n[data]\ntrain_files = a.h5\neval_files = b.h5\n[optimizer]\nlr_scheduler_type = " +
          type + "\nlr_scheduler_kwargs = " + kwargs + "\nlearning_rate = " + rate + "\n" + more,
      {}, "test.ini");
  return config::validate(config, 1)->optimizer;
}

/// Whether the numbers agree but for rounding.
bool is_close(double a, double b) { return std::abs(a - b) <= 1e-12 * std::abs(b); }

config::Optimizer plateau() {
  config::Optimizer optimizer;
  optimizer.lr_scheduler_type = Scheduler::reduce_lr_on_plateau;
  optimizer.lr_scheduler_kwargs.patience = 0;
  optimizer.learning_rate = 0.3;
  return optimizer;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(schedule)

BOOST_AUTO_TEST_CASE(rates_are_those_of_transformers) {
  std::set<std::string> compared{"reduce_lr_on_plateau"};
  for (const std::vector<std::string>& fields : recorded("steps")) {
    const std::string &type = fields[0], &kwargs = fields[1], &rate = fields[2], &warmup = fields[3];
    const std::int64_t num_steps = std::stoll(fields[4]), num_warmup_steps = std::stoll(fields[5]);
    const std::vector<double> rates = numbers_in(fields[6]);
    BOOST_TEST_REQUIRE(std::ssize(rates) == num_steps);
    std::vector<config::Optimizer> ways{optimizer_of(type, kwargs, rate, "warmup_steps = " + warmup + "\n")};
    if (std::stod(warmup) < 1) ways.push_back(optimizer_of(type, kwargs, rate, "warmup_ratio = " + warmup + "\n"));
    for (const config::Optimizer& optimizer : ways) {
      BOOST_TEST_CONTEXT(type << " " << kwargs << ", warm-up " << warmup << " of " << num_steps << " steps") {
        BOOST_TEST(optim::num_warmup_steps(optimizer, num_steps) == num_warmup_steps);
        const optim::Schedule schedule(optimizer, num_steps);
        BOOST_TEST(schedule.state().empty());
        for (std::int64_t step = 0; step < num_steps; ++step) {
          const double found = schedule.rate(step), expected = rates[static_cast<std::size_t>(step)];
          BOOST_CHECK_MESSAGE(is_close(found, expected), "step " << step << ": " << found << ", not " << expected);
        }
      }
    }
    compared.insert(type);
  }
  for (const std::string& type : config::choices(Scheduler{})) BOOST_TEST(compared.contains(type), type);
}

BOOST_AUTO_TEST_CASE(rates_on_a_plateau_are_those_of_torch_also_across_restarts) {
  for (const std::vector<std::string>& fields : recorded("losses")) {
    const config::Optimizer optimizer = optimizer_of(fields[0], fields[1], fields[2]);
    const std::vector<double> losses = numbers_in(fields[3]), rates = numbers_in(fields[4]);
    BOOST_TEST_REQUIRE(losses.size() == rates.size());
    optim::Schedule schedule(optimizer, 100);
    BOOST_TEST(schedule.rate(0) == optimizer.learning_rate);
    std::string state = schedule.state();
    for (std::size_t i = 0; i < losses.size(); ++i) {
      optim::Schedule resumed(optimizer, 100);
      resumed.restore(state);
      BOOST_TEST(resumed.state() == state);
      resumed.observe(losses[i]);
      schedule.observe(losses[i]);
      state = schedule.state();
      BOOST_TEST(resumed.state() == state);
      BOOST_TEST_CONTEXT(fields[1] << ", evaluation " << i) {
        BOOST_TEST(schedule.rate(static_cast<std::int64_t>(i)) == rates[i]);
        BOOST_TEST(resumed.rate(static_cast<std::int64_t>(i)) == rates[i]);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_transformers_and_torch_refuse_is_refused) {
  for (const std::vector<std::string>& fields : recorded("refused")) {
    BOOST_TEST_CONTEXT(fields[0] << " " << fields[1]) {
      test::check_says(test::refusal([&] { (void)optimizer_of(fields[0], fields[1], fields[2]); }), "lr_");
    }
  }
}

BOOST_AUTO_TEST_CASE(a_run_without_steps_has_rates) {
  config::Optimizer optimizer;
  for (const std::string& type : config::choices(Scheduler{})) {
    config::read(type, optimizer.lr_scheduler_type);
    const double rate = optim::Schedule(optimizer, 0).rate(0);
    BOOST_TEST((rate >= 0.0 && rate <= optimizer.learning_rate), type);
  }
}

BOOST_AUTO_TEST_CASE(the_state_of_a_plateau_holds_every_bit) {
  optim::Schedule schedule(plateau(), 10);
  BOOST_TEST(schedule.state() == "peak 0.3 rate 0.3 best inf num_bad_epochs 0 cooldown_counter 0 last_epoch 0");
  schedule.observe(1.0 / 3.0);
  schedule.observe(2.0 / 3.0);
  BOOST_TEST(schedule.state() ==
             "peak 0.3 rate 0.03 best 0.3333333333333333 num_bad_epochs 0 cooldown_counter 0 last_epoch 2");
}

BOOST_AUTO_TEST_CASE(a_plateau_with_another_peak_goes_on_with_the_same_share_of_it) {
  optim::Schedule before(plateau(), 10);
  before.observe(1.0);
  before.observe(1.0);
  config::Optimizer changed = plateau();
  changed.learning_rate = 0.6;
  optim::Schedule now(changed, 10);
  now.restore(before.state());
  BOOST_TEST(is_close(now.rate(2), 0.06));
}

BOOST_AUTO_TEST_CASE(a_schedule_takes_no_state_but_its_own) {
  optim::Schedule before(plateau(), 10);
  before.observe(1.0);
  before.observe(1.0);
  config::Optimizer linear;
  optim::Schedule now(linear, 10);
  now.restore(before.state());
  BOOST_TEST(now.rate(0) == linear.learning_rate);
  BOOST_TEST(now.state().empty());
  optim::Schedule anew(plateau(), 10);
  anew.restore("");
  BOOST_TEST(anew.rate(0) == 0.3);
}

BOOST_AUTO_TEST_CASE(a_state_that_cannot_be_read_is_refused) {
  const std::string good = optim::Schedule(plateau(), 10).state();
  for (const std::string& state : {std::string("greedy 1"), good.substr(0, good.size() - 2), "x" + good,
                                   std::string("peak 0.3 rate fast best inf num_bad_epochs 0 cooldown_counter 0 "
                                               "last_epoch 0")}) {
    optim::Schedule schedule(plateau(), 10);
    BOOST_CHECK_EXCEPTION(schedule.restore(state), Error, [&](const Error& error) {
      return error.status() == ExitStatus::data && std::string(error.what()).find(state) != std::string::npos;
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
