// SPDX-License-Identifier: Apache-2.0
// The tolerance of products, held against sums as tensor cores make them, which no GPU of the emulation does.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "emulation/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(tolerances)

namespace {

constexpr std::int64_t step_terms = 16;

/// The float32 next to x towards zero.
float cut(double x) {
  const auto nearest = static_cast<float>(x);
  return std::abs(static_cast<double>(nearest)) > std::abs(x) ? std::nextafter(nearest, 0.0F) : nearest;
}

/// The largest error of dot products of `num_terms` positive numbers of bf16, as a share of the largest result. Each 16
/// terms are added at once, and the sum cut off; the first `left_out` steps are not added.
double error_of_cut_sums(std::int64_t num_terms, std::int64_t left_out) {
  std::mt19937 generator(1);
  std::uniform_int_distribution<int> mantissa(128, 255);  // numbers of bf16 between 1 and 2
  double largest = 0.0, worst = 0.0;
  for (int element = 0; element < 64; ++element) {
    double exact = 0.0;
    float sum = 0.0F;
    for (std::int64_t step = 0; step < num_terms / step_terms; ++step) {
      double terms = 0.0;
      for (std::int64_t i = 0; i < step_terms; ++i) terms += mantissa(generator) * mantissa(generator) * 0x1p-14;
      exact += terms;
      if (step >= left_out) sum = cut(static_cast<double>(sum) + terms);
    }
    largest = std::max(largest, exact);
    worst = std::max(worst, std::abs(static_cast<double>(sum) - exact));
  }
  return worst / largest;
}

double allowed(std::int64_t num_terms) {
  return tolerance_of_products(DType::bf16, DType::float32, num_terms).of_largest;
}

}  // namespace

BOOST_AUTO_TEST_CASE(of_products_have_room_for_sums_that_are_cut_off) {
  constexpr std::int64_t long_sum = 4864;
  const double error = error_of_cut_sums(long_sum, 0);
  BOOST_TEST(error <= allowed(long_sum));
  BOOST_TEST(error > tolerance_of(DType::float32).of_largest);  // of other results: too little
  for (const std::int64_t num_terms : {16, 64, 896, 2048, 12288}) {
    BOOST_TEST(error_of_cut_sums(num_terms, 0) <= allowed(num_terms), num_terms << " terms");
  }
}

BOOST_AUTO_TEST_CASE(of_products_have_no_room_for_a_step_that_is_left_out) {
  for (const std::int64_t num_terms : {32, 896, 4864, 12288}) {
    BOOST_TEST(error_of_cut_sums(num_terms, 1) > 10 * allowed(num_terms), num_terms << " terms");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
