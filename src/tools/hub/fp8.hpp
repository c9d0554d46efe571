// SPDX-License-Identifier: Apache-2.0
#pragma once
// Floats of 8 bits, E4M3 ("FN": without infinities) and E5M2, of the Open Compute Project's OFP8, and powers of two as
// E8M0; and matrices of them as the folders of the hub store these. A matrix NAME of F8_E4M3, (rows, columns), has
// scales beside it, which its numbers are multiplied with, in NAME_scale_inv (DeepSeek, Qwen, Mistral) or NAME_scale
// (compressed-tensors and others): one for each block of elements, (rows / block, columns / block) both rounded up, one
// for each row, or one for all.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "number_formats.hpp"

namespace sft::hub {

[[nodiscard]] inline float float32_of_e4m3(std::uint8_t code) {
  constexpr int bias = 7, fraction_bits = 3;
  const unsigned exponent = (code >> 3U) & 0xfU, fraction = code & 7U;
  if ((code & 0x7fU) == 0x7fU) return std::numeric_limits<float>::quiet_NaN();
  const auto magnitude =
      exponent == 0 ? std::ldexp(static_cast<float>(fraction), 1 - bias - fraction_bits)
                    : std::ldexp(static_cast<float>(fraction | 8U), static_cast<int>(exponent) - bias - fraction_bits);
  return (code & 0x80U) != 0 ? -magnitude : magnitude;
}

/// The upper half of a float16.
[[nodiscard]] inline float float32_of_e5m2(std::uint8_t code) {
  return float32_of_float16(static_cast<std::uint16_t>(code << 8U));
}

[[nodiscard]] inline float float32_of_e8m0(std::uint8_t code) {
  constexpr int bias = 127;
  if (code == 0xffU) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0F, static_cast<int>(code) - bias);
}

}  // namespace sft::hub
