// SPDX-License-Identifier: Apache-2.0
#include "sft/report/text_exposition.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <limits>

BOOST_AUTO_TEST_SUITE(text_exposition)

BOOST_AUTO_TEST_CASE(each_number_is_a_gauge) {
  using sft::report::Scalar;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::array<Scalar, 4> scalars{{{"loss", 0.5}, {"step_time_s", 1e6}, {"grad_norm", nan}, {"entropy", -inf}}};
  BOOST_TEST(sft::report::text_exposition("abc", scalars) ==
             "# HELP sft_loss `loss` of metrics.jsonl, as last written.\n"
             "# TYPE sft_loss gauge\n"
             "sft_loss{run=\"abc\"} 0.5\n"
             "# HELP sft_step_time_seconds `step_time_s` of metrics.jsonl, as last written.\n"
             "# TYPE sft_step_time_seconds gauge\n"
             "sft_step_time_seconds{run=\"abc\"} 1000000\n"
             "# HELP sft_grad_norm `grad_norm` of metrics.jsonl, as last written.\n"
             "# TYPE sft_grad_norm gauge\n"
             "sft_grad_norm{run=\"abc\"} NaN\n"
             "# HELP sft_entropy `entropy` of metrics.jsonl, as last written.\n"
             "# TYPE sft_entropy gauge\n"
             "sft_entropy{run=\"abc\"} -Inf\n");
}

BOOST_AUTO_TEST_SUITE_END()
