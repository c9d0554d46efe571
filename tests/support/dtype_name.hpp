// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of element types, for the messages of tests and benchmarks.

#include "sft/core/dtype.hpp"

namespace sft {

/// "float32", "bf16" ...
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
  return "?";
}

}  // namespace sft
