// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products of blocks of bf16 numbers in AMX tile registers (Intel's Advanced Matrix Extensions).

#include "ops/cpu/kernels/bf16_pairs.hpp"

namespace sft::ops::cpu::SFT_ISA {

/// To be called before tiles are loaded: GCC 12 does not know that they read memory, and may move stores behind them.
inline void finish_stores() { asm volatile("" ::: "memory"); }

/// Eight tiles of 16 rows of 64 bytes, in memory that is always there: GCC 12 takes LDTILECFG to read 8 bytes, and
/// leaves out stores of others.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
inline constexpr TileConfig tile_config{};

/// Tile registers of 16 rows of 64 bytes for the calling thread, while it lives.
class AmxTiles {
 public:
  AmxTiles() { _tile_loadconfig(&tile_config); }
  ~AmxTiles() { _tile_release(); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

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
  template <bool accumulate, class TermsOf>
  [[gnu::noinline]] static void run(float* c, std::int64_t c_stride, const Bf16* a, std::int64_t a_stride,
                                    const std::int32_t* b, std::int64_t b_stride, Extent size, TermsOf terms_of) {
    finish_stores();
    const std::int64_t c_bytes = c_stride * 4, a_bytes = a_stride * 2, b_bytes = b_stride * 4;
    for (std::int64_t i = 0; i < size.rows; i += block_step) {
      for (std::int64_t j = 0; j < size.columns; j += block_step) {
        const Terms terms = terms_of(Panel{i, i + block_step, j, j + block_step});
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
        for (std::int64_t p = terms.begin / block_step * block_step; p < terms.end; p += block_step) {
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
};

}  // namespace sft::ops::cpu::SFT_ISA
