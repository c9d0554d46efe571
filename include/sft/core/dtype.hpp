// SPDX-License-Identifier: Apache-2.0
#pragma once
// Element types of tensors.

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

}  // namespace sft
