// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small float32 matrix products in registers, for blocks that live in the cache.

#include "ops/cpu/kernels/types.hpp"

namespace sft::ops::cpu::SFT_ISA {

inline constexpr std::int64_t vector_floats = SFT_VECTOR_BITS / 32;
inline constexpr std::size_t vector_bytes = SFT_VECTOR_BITS / 8;

/// Aligned as one float. Local arrays of it are alignas(vector_bytes), because clang 14 forgets the smaller alignment
/// of elements when an array goes through a reference, and reads them with aligned instructions.
using Vector [[gnu::vector_size(vector_bytes), gnu::aligned(4), gnu::may_alias]] = float;

/// Neighbours in memory, in float32.
inline Vector vector_at(const float* x) { return *reinterpret_cast<const Vector*>(x); }
inline Vector vector_at(const Bf16* x) {
  using Halves [[gnu::vector_size(SFT_VECTOR_BITS / 16), gnu::aligned(2), gnu::may_alias]] = std::uint16_t;
  using Bits [[gnu::vector_size(SFT_VECTOR_BITS / 8)]] = std::uint32_t;
  return reinterpret_cast<Vector>(__builtin_convertvector(*reinterpret_cast<const Halves*>(x), Bits) << 16);
}

/// Rows and vectors of one product held in registers: 24 of 32 accumulators with AVX-512, 12 of 16 below.
inline constexpr std::int64_t panel_rows = 6;
inline constexpr std::int64_t panel_vectors = SFT_VECTOR_BITS == 512 ? 4 : 2;

/// An operand that is read one number at a time: element (i, p) is data[i * row_stride + p * column_stride].
struct Left {
  const float* data;
  std::int64_t row_stride, column_stride;
};

template <int rows, int vectors, bool accumulate>
inline void multiply_block(Left a, const float* b, std::int64_t b_stride, float* c, std::int64_t c_stride,
                           std::int64_t depth) {
  alignas(vector_bytes) Vector sums[rows][vectors] = {};
  for (std::int64_t p = 0; p < depth; ++p) {
    const Vector* right = reinterpret_cast<const Vector*>(b + p * b_stride);
    const float* left = a.data + p * a.column_stride;
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < vectors; ++j) sums[i][j] += left[i * a.row_stride] * right[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
    Vector* out = reinterpret_cast<Vector*>(c + i * c_stride);
#pragma GCC unroll 8
    for (int j = 0; j < vectors; ++j) out[j] = accumulate ? out[j] + sums[i][j] : sums[i][j];
  }
}

template <int vectors, bool accumulate>
void multiply_columns(std::int64_t rows, Left a, const float* b, std::int64_t b_stride, float* c, std::int64_t c_stride,
                      std::int64_t depth) {
  switch (rows) {
    case 1:
      return multiply_block<1, vectors, accumulate>(a, b, b_stride, c, c_stride, depth);
    case 2:
      return multiply_block<2, vectors, accumulate>(a, b, b_stride, c, c_stride, depth);
    case 3:
      return multiply_block<3, vectors, accumulate>(a, b, b_stride, c, c_stride, depth);
    case 4:
      return multiply_block<4, vectors, accumulate>(a, b, b_stride, c, c_stride, depth);
    case 5:
      return multiply_block<5, vectors, accumulate>(a, b, b_stride, c, c_stride, depth);
    default:
      return multiply_block<6, vectors, accumulate>(a, b, b_stride, c, c_stride, depth);
  }
}

/// c (rows, columns) = a (rows, depth) b (depth, columns), or +=. rows <= panel_rows; columns is a multiple of
/// vector_floats; b and c are contiguous along columns.
template <bool accumulate>
void multiply_panel(std::int64_t rows, std::int64_t columns, std::int64_t depth, Left a, const float* b,
                    std::int64_t b_stride, float* c, std::int64_t c_stride) {
  std::int64_t column = 0;
  for (; column + panel_vectors * vector_floats <= columns; column += panel_vectors * vector_floats) {
    multiply_columns<panel_vectors, accumulate>(rows, a, b + column, b_stride, c + column, c_stride, depth);
  }
  for (; column < columns; column += vector_floats) {
    multiply_columns<1, accumulate>(rows, a, b + column, b_stride, c + column, c_stride, depth);
  }
}

}  // namespace sft::ops::cpu::SFT_ISA
