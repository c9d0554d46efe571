// SPDX-License-Identifier: Apache-2.0
// bfloat16 and binary16 to the last bit.

#include "hub/number_formats.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

using namespace sft::hub;

BOOST_AUTO_TEST_SUITE(number_formats)

BOOST_AUTO_TEST_CASE(every_number_of_16_bits_comes_back_with_every_bit) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (bf16_of_float32(float32_of_bf16(half)) != half) BOOST_TEST(half == bf16_of_float32(float32_of_bf16(half)));
    if (float16_of_float32(float32_of_float16(half)) != half) {
      BOOST_TEST(half == float16_of_float32(float32_of_float16(half)));
    }
  }
  BOOST_TEST(float32_of_float16(0x3c01) == 1.0F + 0x1p-10F);
  BOOST_TEST(float32_of_float16(0x0001) == 0x1p-24F);
  BOOST_TEST(float32_of_float16(0x83ff) == -1023 * 0x1p-24F);
  BOOST_TEST(float32_of_float16(0xfbff) == -65504.0F);
  BOOST_TEST(std::isinf(float32_of_float16(0x7c00)));
  BOOST_TEST(std::isnan(float32_of_float16(0x7e01)));
  BOOST_TEST(float32_of_bf16(0x3f81) == 1.0F + 0x1p-7F);
}

/// The neighbour of `value` among the numbers of 16 bits that is nearest, ties to even, by looking at all of them.
template <class ToFloat>
std::uint16_t nearest(float value, const ToFloat& to_float) {
  std::uint16_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const auto candidate = static_cast<std::uint16_t>(bits);
    const float number = to_float(candidate);
    if (!std::isfinite(number) || std::signbit(number) != std::signbit(value)) continue;
    const double delta = std::abs(static_cast<double>(number) - static_cast<double>(value));
    if (delta < distance || (delta == distance && (candidate & 1U) == 0)) {
      best = candidate;
      distance = delta;
    }
  }
  return best;
}

BOOST_AUTO_TEST_CASE(others_go_to_the_nearest_with_ties_to_even) {
  for (const float value : {1.0F + 0x1p-11F, 1.0F + 3 * 0x1p-11F, 1.0F + 0x1p-8F, 1.0F + 3 * 0x1p-8F, -0.1F,
                            3.14159265F, 65503.9F, 0x1p-25F, 1.5F * 0x1p-24F, 2.5F * 0x1p-24F, 0x1.ffcp-15F,
                            0x1.ffep-15F, 0x1.fffffep-15F, 0x1p-14F, -0x1.8p-26F, 1e-30F, 0.0F, -0.0F, 12345.678F}) {
    BOOST_TEST(float16_of_float32(value) == nearest(value, float32_of_float16), value);
    BOOST_TEST(bf16_of_float32(value) == nearest(value, float32_of_bf16), value);
  }
  BOOST_TEST(float16_of_float32(65519.99F) == 0x7bff);
  BOOST_TEST(float16_of_float32(65520.0F) == 0x7c00);
  BOOST_TEST(float16_of_float32(-1e30F) == 0xfc00);
  BOOST_TEST(bf16_of_float32(std::numeric_limits<float>::max()) == 0x7f80);
  BOOST_TEST(bf16_of_float32(std::numeric_limits<float>::infinity()) == 0x7f80);
  BOOST_TEST(std::isnan(float32_of_bf16(bf16_of_float32(std::bit_cast<float>(0x7f800001U)))));
  BOOST_TEST(std::isnan(float32_of_float16(float16_of_float32(std::bit_cast<float>(0xff800001U)))));
}

BOOST_AUTO_TEST_SUITE_END()
