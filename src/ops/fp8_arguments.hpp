// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the kernels are given of matrices of 8-bit floats, under the same rules as kernel_arguments.hpp.

#include <cstdint>

namespace sft::ops {

/// A matrix of 8-bit floats, which has rows one behind the other; see ops::Fp8Matrix. Byte and Float are const where it
/// is only read.
template <class Byte, class Float>
struct BasicFp8View {
  Byte* codes;
  Float* scales;  ///< scale_columns in a row
  std::int64_t rows, columns, tile_rows, tile_columns, scale_columns;
  bool is_e5m2;
};
using Fp8View = BasicFp8View<std::uint8_t, float>;
using ConstFp8View = BasicFp8View<const std::uint8_t, const float>;

}  // namespace sft::ops
