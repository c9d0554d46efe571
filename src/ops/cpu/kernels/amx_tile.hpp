// SPDX-License-Identifier: Apache-2.0
#pragma once
// bf16 matrix products of small blocks in AMX tile registers (Intel's Advanced Matrix Extensions).
//
// A left operand is bf16, row by row. A right operand is "paired": 32-bit words (depth / 2, columns), word (p, n)
// holding rows 2p (low half) and 2p + 1 of column n. All dims are multiples of amx_step.

#include <immintrin.h>

#include "ops/cpu/kernels/transpose.hpp"

namespace sft::ops::cpu::SFT_ISA {

inline constexpr std::int64_t amx_step = 32;

/// Tile registers of 16 rows of 64 bytes for the calling thread, while it lives.
class AmxTiles {
 public:
  AmxTiles() {
    struct alignas(64) {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    _tile_loadconfig(&config);
  }
  ~AmxTiles() { _tile_release(); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};

struct ProductSize {
  std::int64_t rows, columns, depth;
};

/// c (rows, columns) float32 = a (rows, depth) b (depth, columns), or +=; strides in elements of the pointers.
template <bool accumulate>
void amx_multiply(float* c, std::int64_t c_stride, const Bf16* a, std::int64_t a_stride, const std::int32_t* b,
                  std::int64_t b_stride, ProductSize size) {
  const std::int64_t c_bytes = c_stride * 4, a_bytes = a_stride * 2, b_bytes = b_stride * 4;
  for (std::int64_t i = 0; i < size.rows; i += amx_step) {
    for (std::int64_t j = 0; j < size.columns; j += amx_step) {
      float* upper = c + i * c_stride + j;
      float* lower = upper + 16 * c_stride;
      if constexpr (accumulate) {
        _tile_loadd(0, upper, c_bytes);
        _tile_loadd(1, upper + 16, c_bytes);
        _tile_loadd(2, lower, c_bytes);
        _tile_loadd(3, lower + 16, c_bytes);
      } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
      }
      for (std::int64_t p = 0; p < size.depth; p += amx_step) {
        _tile_loadd(4, a + i * a_stride + p, a_bytes);
        _tile_loadd(5, a + (i + 16) * a_stride + p, a_bytes);
        _tile_loadd(6, b + p / 2 * b_stride + j, b_bytes);
        _tile_loadd(7, b + p / 2 * b_stride + j + 16, b_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
      _tile_stored(0, upper, c_bytes);
      _tile_stored(1, upper + 16, c_bytes);
      _tile_stored(2, lower, c_bytes);
      _tile_stored(3, lower + 16, c_bytes);
    }
  }
}

/// Words of two bf16 numbers each from two rows of floats: `first` in the low halves.
inline __m512i pair_of(__m512 first, __m512 second) {
  const __m512i low = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(first)));
  const __m512i high = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(second)));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
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

/// Pairs of neighbouring rows of bf16, element by element, as AMX takes them.
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
