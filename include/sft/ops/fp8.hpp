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
// A scale is infinite where its tile has a number that is infinite or NaN, and all numbers of the tile are NaN then,
// for their codes are 0 or NaN: what has gone wrong shows in the loss. (A NaN would be lost where ranks ask for the
// largest scale: not all libraries keep it.)
//
// A matrix lies as cuBLASLt reads it: a line of it holds the terms of a sum, one behind the other, and is followed by
// zeros up to a multiple of 16 codes. So the operands of a product c = a b^T are lines of a and lines of b, however the
// matrices lay that they were rounded from.

#include <array>
#include <cstdint>

#include "sft/tensor/tensor.hpp"

namespace sft::ops {

enum class Fp8Format : std::uint8_t {
  e4m3,  ///< 4 bits of exponent, 3 of mantissa, up to 448; NaN, but nothing infinite ("e4m3fn")
  e5m2,  ///< 5 bits of exponent, 2 of mantissa, up to 57344
};

/// Which numbers share a scale.
enum class Fp8Tiles : std::uint8_t {
  whole,    ///< all of the matrix
  vectors,  ///< 128 neighbours in a line
  blocks,   ///< 128 neighbours in each of 128 lines
};

/// The side of tiles; those at the ends of a matrix are smaller. Products on GPUs add up so many terms before they
/// multiply with scales.
inline constexpr std::int64_t fp8_tile = 128;

/// Codes from one line to the next, of which so many are terms.
[[nodiscard]] constexpr std::int64_t fp8_line_codes(std::int64_t terms) { return (terms + 15) / 16 * 16; }

/// Codes of the memory of a matrix. There is room for lines up to a multiple of 4, as products may read them; what is
/// in those does not count.
[[nodiscard]] constexpr std::int64_t num_fp8_codes(std::int64_t lines, std::int64_t terms) {
  return (lines + 3) / 4 * 4 * fp8_line_codes(terms);
}

/// (rows, columns) of the scales of a matrix: (1, 1) of a whole one; of vectors (tiles along a line, lines); of blocks
/// (tiles one below the other, tiles along a line up to a multiple of 4, of which the last do not count).
[[nodiscard]] constexpr std::array<std::int64_t, 2> fp8_scale_shape(Fp8Tiles tiles, std::int64_t lines,
                                                                    std::int64_t terms) {
  const auto count = [](std::int64_t size) { return (size + fp8_tile - 1) / fp8_tile; };
  switch (tiles) {
    case Fp8Tiles::vectors:
      return {count(terms), lines};
    case Fp8Tiles::blocks:
      return {count(lines), (count(terms) + 3) / 4 * 4};
    default:
      return {1, 1};
  }
}

template <class AnyTensor>
struct BasicFp8Matrix {
  AnyTensor codes;   ///< (lines, terms) uint8, as PyTorch's float8_e4m3fn and float8_e5m2; fp8_line_codes from line to
                     ///< line, num_fp8_codes of memory, aligned to 16 bytes
  AnyTensor scales;  ///< fp8_scale_shape, float32; but of a whole matrix aligned to 16 bytes
  Fp8Format format = Fp8Format::e4m3;
  Fp8Tiles tiles = Fp8Tiles::whole;

  BasicFp8Matrix() = default;
  BasicFp8Matrix(AnyTensor codes_in, AnyTensor scales_in, Fp8Format format_in, Fp8Tiles tiles_in)
      : codes(codes_in), scales(scales_in), format(format_in), tiles(tiles_in) {}
  /// What may be written may be read.
  template <class Other>
  BasicFp8Matrix(const BasicFp8Matrix<Other>& x) : codes(x.codes), scales(x.scales), format(x.format), tiles(x.tiles) {}
};
using Fp8Matrix = BasicFp8Matrix<Tensor>;
using ConstFp8Matrix = BasicFp8Matrix<ConstTensor>;  ///< is only read

/// The scale of a tile of zeros, below which none is.
inline constexpr float fp8_least_scale = 0x1p-126F;

}  // namespace sft::ops
