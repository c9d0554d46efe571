// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrices of 8-bit floats with scales, and their products (Micikevicius et al. 2022, "FP8 Formats for Deep Learning").
//
// The number of an element is that of its code times the scale of its tile. A scale is the least power of two with
// which no number of the tile becomes larger than the format's largest, as Transformer Engine's blockwise recipe and
// torchao's round_scales_to_power_of_2 have it: division by it changes no digit, so whatever the scale is, a number is
// rounded to the same, unless it is so small that it is subnormal in the format: below 2^-13 of its tile's largest in
// E4M3, below 2^-28 in E5M2.
//
// Scales are 2^-126 at least, which is that of a tile of zeros: so the largest scale of parts is that of the whole.
//
// A scale is NaN where its tile has a number that is infinite or NaN, and so are all numbers of the tile then: what has
// gone wrong shows in the loss.

#include <cstdint>

#include "sft/tensor/tensor.hpp"

namespace sft::ops {

enum class Fp8Format : std::uint8_t {
  e4m3,  ///< 4 bits of exponent, 3 of mantissa, up to 448; NaN, but nothing infinite ("e4m3fn")
  e5m2,  ///< 5 bits of exponent, 2 of mantissa, up to 57344
};

/// The tiles of a matrix, from its first row and column on: so many rows and columns, less at the ends; 0: all.
struct Fp8Tiles {
  std::int64_t rows = 0, columns = 0;

  /// How many there are, of so many rows or columns.
  [[nodiscard]] static std::int64_t count(std::int64_t size, std::int64_t tile) {
    return tile == 0 ? 1 : (size + tile - 1) / tile;
  }
};

template <class AnyTensor>
struct BasicFp8Matrix {
  AnyTensor codes;   ///< (N, M) uint8, as PyTorch's float8_e4m3fn and float8_e5m2
  AnyTensor scales;  ///< (tiles one below the other, tiles side by side) float32
  Fp8Format format = Fp8Format::e4m3;
  Fp8Tiles tiles = {};

  BasicFp8Matrix() = default;
  BasicFp8Matrix(AnyTensor codes_in, AnyTensor scales_in, Fp8Format format_in, Fp8Tiles tiles_in)
      : codes(codes_in), scales(scales_in), format(format_in), tiles(tiles_in) {}
  /// What may be written may be read.
  template <class Other>
  BasicFp8Matrix(const BasicFp8Matrix<Other>& x) : codes(x.codes), scales(x.scales), format(x.format), tiles(x.tiles) {}
};
using Fp8Matrix = BasicFp8Matrix<Tensor>;
using ConstFp8Matrix = BasicFp8Matrix<ConstTensor>;  ///< is only read

/// See Backend::find_fp8_scales and round_to_fp8.
struct RoundToFp8 {
  Fp8Matrix out;
  ConstTensor in;  ///< (N, M) compute dtype, strided
};

/// c = op(a) op(b) [+ bias] [+ c], as Matmul, with sums in float32. The sums have terms.
struct Fp8Matmul {
  ConstFp8Matrix a, b;
  Tensor c;  ///< compute dtype or float32, strided
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  ConstTensor bias{};  ///< (columns of c) compute dtype; empty: none
};

}  // namespace sft::ops
