// SPDX-License-Identifier: Apache-2.0
#include "sft/report/text_exposition.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <limits>

BOOST_AUTO_TEST_SUITE(text_exposition)

BOOST_AUTO_TEST_CASE(each_number_is_a_gauge) {
  using sft::report::Scalar;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::array<Scalar, 4> scalars{
      {{"loss", 0.5}, {"tokens_per_second", 1e6}, {"grad_norm", nan}, {"entropy", -inf}}};
  BOOST_TEST(sft::report::text_exposition("abc", scalars) ==
             "# TYPE sft_loss gauge\nsft_loss{run=\"abc\"} 0.5\n"
             "# TYPE sft_tokens_per_second gauge\nsft_tokens_per_second{run=\"abc\"} 1000000\n"
             "# TYPE sft_grad_norm gauge\nsft_grad_norm{run=\"abc\"} NaN\n"
             "# TYPE sft_entropy gauge\nsft_entropy{run=\"abc\"} -Inf\n");
}

BOOST_AUTO_TEST_SUITE_END()
