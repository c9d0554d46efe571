// SPDX-License-Identifier: Apache-2.0
#pragma once
// bfloat16 as bits, to and from float32. Rounding is to the nearest, ties to even; a NaN stays one and keeps the bits
// that fit.

#include <bit>
#include <cstdint>

namespace sft {

[[nodiscard]] inline float float32_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

[[nodiscard]] inline std::uint16_t bf16_of_float32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  if (is_nan) {
    const auto upper = static_cast<std::uint16_t>(bits >> 16U);
    return (upper & 0x7fU) != 0 ? upper : static_cast<std::uint16_t>(upper | 0x40U);  // else it would be infinite
  }
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

}  // namespace sft
