// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>

#include "sft/train/step_table.hpp"

using namespace sft;

namespace {

train::StepMetrics step(std::int64_t number) {
  train::StepMetrics metrics;
  metrics.step = number;
  metrics.epoch = 0.373;
  metrics.loss = 4.567994;
  metrics.grad_norm = 1.27581;
  metrics.learning_rate = 1.43e-3;
  metrics.mean_token_accuracy = 0.118;
  metrics.step_num_tokens = 1982;
  metrics.step_time_s = 0.352;
  return metrics;
}

const train::EvalMetrics evaluation{
    .step = 100, .epoch = 1.865, .loss = 2.12749, .mean_token_accuracy = 0.3842, .time_s = 0.318};

}  // namespace

BOOST_AUTO_TEST_CASE(a_terminal_has_a_line_in_place_for_the_rest) {
  const train::StepTable table(/*is_log=*/false, 1400);
  BOOST_TEST(table.header() == "    step    epoch       loss  grad norm       rate  accuracy   tokens/s   step s");
  BOOST_TEST(table.row(step(20), "8:05") ==
             "      20    0.373    4.56799     1.2758   1.43e-03    0.1180     5.63 k    0.352");
  BOOST_TEST(table.row(evaluation) ==
             "     100    1.865    2.12749  evaluation              0.3842               0.318");
}

BOOST_AUTO_TEST_CASE(a_log_says_of_how_many_steps_and_what_is_left) {
  const train::StepTable table(/*is_log=*/true, 1400);
  BOOST_TEST(table.header() == "     step   epoch     loss grad norm     rate accuracy tokens/s  step s     left");
  BOOST_TEST(table.row(step(20), "8:05") ==
             "  20/1400   0.373  4.56799    1.2758 1.43e-03   0.1180   5.63 k   0.352     8:05");
  BOOST_TEST(table.row(evaluation) == " 100/1400   1.865  2.12749  evaluation          0.3842            0.318");
  const std::string time = "2026-11-22 22:41:07 ";
  BOOST_TEST((time + table.row(step(1400), "1:02:03")).size() <= 100U);
}

BOOST_AUTO_TEST_CASE(columns_stay_below_their_names_in_long_runs) {
  const train::StepTable table(/*is_log=*/true, 1000000);
  BOOST_TEST(table.row(step(1), "300:00:00").find("1/1000000   0.373") != std::string::npos);
  BOOST_TEST(table.header().find("accuracy") == table.row(step(1), "").find("  0.1180"));
}
