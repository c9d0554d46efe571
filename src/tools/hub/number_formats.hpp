// SPDX-License-Identifier: Apache-2.0
#pragma once
// IEEE 754 binary16 and bfloat16 as bits, to and from float32. Rounding is to the nearest, ties to even; a NaN stays
// one and keeps the bits that fit.

#include <bit>
#include <cstdint>

#include "sft/core/dtype.hpp"

namespace sft::hub {

using sft::bf16_of_float32;
using sft::float32_of_bf16;

[[nodiscard]] inline float float32_of_float16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
  const std::uint32_t exponent = (half >> 10U) & 0x1fU, fraction = half & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13U);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112U) << 23U | fraction << 13U);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;  // exact
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

/// Infinite where the magnitude rounds to 65520 or more.
[[nodiscard]] inline std::uint16_t float16_of_float32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    const std::uint32_t fraction = (magnitude >> 13U) & 0x3ffU;
    return static_cast<std::uint16_t>(sign | 0x7c00U | (fraction != 0 ? fraction : 0x200U));
  }
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (magnitude < 0x38800000U) {  // below 2^-14: in units of 2^-24, which adding 0.5 rounds to
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13U) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13U) - (112U << 10U)));
}

}  // namespace sft::hub
