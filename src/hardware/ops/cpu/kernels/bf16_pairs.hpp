// SPDX-License-Identifier: Apache-2.0
#pragma once
// How products of blocks of bf16 numbers read their operands, whatever instructions make them:
//
//   multiply      c (rows, columns) float32  = a (rows, depth) b (depth, columns)
//   multiply_add  c (rows, columns) float32 += the same
//
// a is bf16, row by row. b is "paired": 32-bit words (depth / 2, columns), word (p, n) holding rows 2p (low half) and
// 2p + 1 of column n. All dims are multiples of block_step. Strides are in elements of the pointers. Both functions ask
// `terms_of` which terms the sums of a part of c have; they may add others, so these have to be zeros.

#include <immintrin.h>

#include "ops/cpu/kernels/transpose.hpp"

namespace sft::ops::cpu::SFT_ISA {

inline constexpr std::int64_t block_step = 32;

/// Rows [row, row_end) and columns [column, column_end) of a product.
struct Panel {
  std::int64_t row, row_end, column, column_end;
};

/// Terms [begin, end) of sums; none where begin >= end.
struct Terms {
  std::int64_t begin, end;
};

/// Words of two bf16 numbers each from two rows of floats: `first` in the low halves.
inline __m512i pair_of(__m512 first, __m512 second) {
  alignas(64) static constexpr std::uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                          8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto one_behind_the_other = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
  return _mm512_permutexvar_epi16(_mm512_load_si512(order), one_behind_the_other);
}

/// out (rows / 2, columns) paired = in (rows, columns) float32
inline void pair_rows(std::int32_t* out, std::int64_t out_stride, const float* in, std::int64_t in_stride,
                      Extent size) {
  for (std::int64_t r = 0; r < size.rows; r += 2) {
    for (std::int64_t c = 0; c < size.columns; c += 16) {
      const float* first = in + r * in_stride + c;
      _mm512_storeu_si512(out + r / 2 * out_stride + c,
                          pair_of(_mm512_loadu_ps(first), _mm512_loadu_ps(first + in_stride)));
    }
  }
}

/// Pairs of neighbouring rows of bf16, element by element.
inline void pair_rows(std::int32_t* out, std::int64_t out_stride, const Bf16* in, std::int64_t in_stride, Extent size) {
  for (std::int64_t r = 0; r < size.rows; r += 2) {
    const Bf16 *first = in + r * in_stride, *second = first + in_stride;
#pragma omp simd
    for (std::int64_t c = 0; c < size.columns; ++c) {
      out[r / 2 * out_stride + c] =
          static_cast<std::int32_t>(static_cast<std::uint32_t>(second[c].bits) << 16 | first[c].bits);
    }
  }
}

/// out (rows, columns) = in (rows, columns), rounded
inline void round_rows(Bf16* out, std::int64_t out_stride, const float* in, std::int64_t in_stride, Extent size) {
  for (std::int64_t r = 0; r < size.rows; ++r) {
    for (std::int64_t c = 0; c < size.columns; c += 32) {
      const float* x = in + r * in_stride + c;
      _mm512_storeu_si512(out + r * out_stride + c,
                          reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + 16), _mm512_loadu_ps(x))));
    }
  }
}

/// out (padded_size) = in (size), zeros behind
inline void pad_rows(Bf16* out, Extent padded_size, const Bf16* in, std::int64_t in_stride, Extent size) {
  for (std::int64_t r = 0; r < padded_size.rows; ++r) {
    Bf16* to = out + r * padded_size.columns;
    const std::int64_t columns = r < size.rows ? size.columns : 0;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) to[c].bits = in[r * in_stride + c].bits;
#pragma omp simd
    for (std::int64_t c = columns; c < padded_size.columns; ++c) to[c].bits = 0;
  }
}

}  // namespace sft::ops::cpu::SFT_ISA
