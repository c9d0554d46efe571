// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products of blocks of bf16 numbers in vector registers, by vdpbf16ps of AVX-512 BF16: it adds the two products of a
// pair to each of 16 float32 sums. It rounds to nearest, reads numbers below 2^-126 as 0 and returns 0 for them.

#include "ops/cpu/kernels/bf16_pairs.hpp"

namespace sft::ops::cpu::SFT_ISA {

class PairTiles {
 public:
  /// See bf16_pairs.hpp.
  template <class TermsOf>
  static void multiply(float* c, std::int64_t c_stride, const Bf16* a, std::int64_t a_stride, const std::int32_t* b,
                       std::int64_t b_stride, Extent size, TermsOf terms_of) {
    run<false>(c, c_stride, a, a_stride, b, b_stride, size, terms_of);
  }
  template <class TermsOf>
  static void multiply_add(float* c, std::int64_t c_stride, const Bf16* a, std::int64_t a_stride, const std::int32_t* b,
                           std::int64_t b_stride, Extent size, TermsOf terms_of) {
    run<true>(c, c_stride, a, a_stride, b, b_stride, size, terms_of);
  }

 private:
  /// Sums in registers: as many as hide the latency of an instruction, and few, so that few terms are zeros.
  static constexpr std::int64_t rows = 8, columns = 16;
  using Pair [[gnu::aligned(2), gnu::may_alias]] = std::int32_t;

  template <bool accumulate, class TermsOf>
  [[gnu::noinline]] static void run(float* c, std::int64_t c_stride, const Bf16* a, std::int64_t a_stride,
                                    const std::int32_t* b, std::int64_t b_stride, Extent size, TermsOf terms_of) {
    for (std::int64_t j = 0; j < size.columns; j += columns) {
      for (std::int64_t i = 0; i < size.rows; i += rows) {
        const Terms terms = terms_of(Panel{i, i + rows, j, j + columns});
        float* sums_begin = c + i * c_stride + j;
        __m512 sums[rows];
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
          sums[r] = accumulate ? _mm512_loadu_ps(sums_begin + r * c_stride) : _mm512_setzero_ps();
        }
        for (std::int64_t p = terms.begin / 2 * 2; p < terms.end; p += 2) {
          const auto right = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + p / 2 * b_stride + j));
#pragma GCC unroll 8
          for (int r = 0; r < rows; ++r) {
            const auto* left = reinterpret_cast<const Pair*>(a + (i + r) * a_stride + p);
            sums[r] = _mm512_dpbf16_ps(sums[r], reinterpret_cast<__m512bh>(_mm512_set1_epi32(*left)), right);
          }
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) _mm512_storeu_ps(sums_begin + r * c_stride, sums[r]);
      }
    }
  }
};

}  // namespace sft::ops::cpu::SFT_ISA
