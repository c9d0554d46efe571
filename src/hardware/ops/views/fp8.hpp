// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pointers and sizes of the ops on matrices of 8-bit floats; see views/tensor.hpp.

#include <cstdint>

#include "ops/views/tensor.hpp"
#include "sft/ops/calls/fp8.hpp"

namespace sft::ops {

/// A matrix of 8-bit floats; see ops::Fp8Matrix. Byte and Float are const where it is only read.
template <class Byte, class Float>
struct BasicFp8View {
  enum class Tiles { whole, vectors, blocks };

  Byte* codes;
  Float* scales;
  std::int64_t lines, terms;
  std::int64_t line_codes, row_scales;  ///< from one line, or row of scales, to the next
  Tiles tiles;
  bool is_e5m2;
};
using Fp8View = BasicFp8View<std::uint8_t, float>;
using ConstFp8View = BasicFp8View<const std::uint8_t, const float>;

/// See ops::RoundToFp8. Without `turned` its codes are null.
struct Fp8Rounding {
  Fp8View out, turned;
  ConstView in;
  bool transpose;
};

/// See ops::ArrangeFp8.
struct Fp8Arrangement {
  std::uint8_t* out;
  const std::uint8_t* in;
  std::int64_t lines, terms;
  std::int64_t line_codes, in_stride;  ///< from one line of out, or row of in, to the next
  bool transpose;
  float* out_scales;  ///< of blocks; null: there are none
  const float* in_scales;
  std::int64_t out_row_scales, in_row_scales;
};

/// See ops::Fp8Run.
struct Fp8RunView {
  std::uint8_t* codes;
  ConstView in;  ///< one row
  std::int64_t first, terms;
  float* scales;
  std::int64_t row_scales;
  bool is_whole;
};

/// The side of a tile, ops::fp8_tile.
inline constexpr std::int64_t fp8_tile_side = 128;

// Each throws std::logic_error where shapes or dtypes break the contract.
[[nodiscard]] Fp8View view_of(const Fp8Matrix& x);
[[nodiscard]] ConstFp8View view_of(const ConstFp8Matrix& x);
[[nodiscard]] ConstView source_of(const FindFp8Scale& round);
[[nodiscard]] Fp8Rounding view_of(const RoundToFp8& round);
[[nodiscard]] Fp8Arrangement view_of(const ArrangeFp8& arrange);
[[nodiscard]] Fp8RunView view_of(const Fp8Run& run);
void ensure_fits(const Fp8Matmul& product);

}  // namespace sft::ops
