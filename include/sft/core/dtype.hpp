// SPDX-License-Identifier: Apache-2.0
#pragma once
// Element types of tensors.

#include <bit>
#include <cstddef>
#include <cstdint>

namespace sft {

enum class DType : std::uint8_t {
  float32,
  bf16,
  float64,
  int32,
  uint8,  ///< codes, which are stored and no more
};

/// Bytes of one element.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::float64:
      return 8;
    case DType::bf16:
      return 2;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::uint8:
      return 1;
  }
  return 0;
}

/// Its name in messages: "float32", "bf16" ...
[[nodiscard]] constexpr const char* name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::bf16:
      return "bf16";
    case DType::float64:
      return "float64";
    case DType::int32:
      return "int32";
    case DType::uint8:
      return "uint8";
  }
  return "of no dtype";
}

/// Storage of one bfloat16 number: the upper half of a float32.
struct BFloat16 {
  std::uint16_t bits;
};

// To and from float32, as bits: rounding is to the nearest, ties to even; a NaN stays one and keeps the bits that fit.

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
