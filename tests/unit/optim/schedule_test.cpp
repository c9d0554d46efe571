// SPDX-License-Identifier: Apache-2.0
#include "sft/optim/schedule.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <ostream>
#include <vector>

using namespace sft;
using config::Scheduler;

namespace {

/// Rates that get_scheduler() of transformers 5 gave for a peak of 1.
struct Case {
  const char* name;
  Scheduler scheduler;
  std::int64_t warmup_steps;
  std::int64_t max_steps;
  std::vector<double> rates;
};

std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }

const std::vector<double> warmup_linear{0, 1. / 3, 2. / 3, 1, 0.8, 0.6, 0.4, 0.2, 0};
const std::vector<double> cosine_tail{
    1.0, 0.9045084971874737, 0.6545084971874737, 0.34549150281252633, 0.09549150281252633, 0.0};

const Case cases[] = {
    {"constant ignores warm-up", Scheduler::constant, 3, 8, {1, 1, 1, 1, 1, 1, 1, 1, 1}},
    {"constant with warm-up", Scheduler::constant_with_warmup, 3, 8, {0, 1. / 3, 2. / 3, 1, 1, 1, 1, 1, 1}},
    {"linear with warm-up", Scheduler::linear, 3, 8, warmup_linear},
    {"linear", Scheduler::linear, 0, 5, {1, 0.8, 0.6, 0.4, 0.2, 0}},
    {"cosine", Scheduler::cosine, 0, 5, cosine_tail},
    {"cosine with warm-up", Scheduler::cosine, 2, 7, {0, 0.5, 1.0, 0.9045084971874737, 0.6545084971874737}},
    {"warm-up longer than the run", Scheduler::linear, 10, 8, {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(schedule)

BOOST_DATA_TEST_CASE(rates_are_those_of_transformers, boost::unit_test::data::make(cases), one) {
  config::Optimizer optimizer;
  optimizer.lr_scheduler_type = one.scheduler;
  optimizer.warmup_steps = one.warmup_steps;
  optimizer.learning_rate = 0.5;
  for (std::size_t step = 0; step < one.rates.size(); ++step) {
    const double rate = optim::learning_rate(optimizer, static_cast<std::int64_t>(step), one.max_steps);
    BOOST_TEST(rate == 0.5 * one.rates[step], boost::test_tools::tolerance(1e-15));
  }
}

BOOST_AUTO_TEST_CASE(a_run_without_steps_has_rates) {
  config::Optimizer optimizer;
  for (const Scheduler scheduler : {Scheduler::linear, Scheduler::cosine}) {
    optimizer.lr_scheduler_type = scheduler;
    BOOST_TEST(optim::learning_rate(optimizer, 0, 0) >= 0.0);
  }
}

BOOST_AUTO_TEST_SUITE_END()
