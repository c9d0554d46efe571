// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands in for the compiler's <immintrin.h> where attention on AMX is compiled for any processor: those of its
// intrinsics that src/ops/cpu/kernels calls there. Tiles are those of tile_registers.hpp, vectors the compiler's own.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "unit/ops/amx/tile_registers.hpp"

using __m512 [[gnu::vector_size(64), gnu::may_alias]] = float;
using __m512i [[gnu::vector_size(64), gnu::may_alias]] = long long;
using __m512bh [[gnu::vector_size(64), gnu::may_alias]] = short;

inline void _tile_loadconfig(const void* config) { sft::ops::testing::tiles_of_thread().configure(config); }
inline void _tile_release() { sft::ops::testing::tiles_of_thread().release(); }
inline void _tile_zero(int tile) { sft::ops::testing::tiles_of_thread().zero(tile); }
inline void _tile_loadd(int tile, const void* base, std::ptrdiff_t stride) {
  sft::ops::testing::tiles_of_thread().load(tile, base, stride);
}
inline void _tile_stored(int tile, void* base, std::ptrdiff_t stride) {
  sft::ops::testing::tiles_of_thread().store(tile, base, stride);
}
inline void _tile_dpbf16ps(int sums, int left, int right) {
  sft::ops::testing::tiles_of_thread().multiply_add(sums, left, right);
}

inline __m512 _mm512_loadu_ps(const void* from) {
  __m512 x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}
inline __m512i _mm512_load_si512(const void* from) { return *static_cast<const __m512i*>(from); }
inline void _mm512_storeu_si512(void* to, __m512i x) { std::memcpy(to, &x, sizeof(x)); }

/// Rounds to nearest even; numbers below 2^-126 become 0, and a NaN stays one.
inline short bf16_of_float(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t nearest = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t finite = (bits & 0x7f800000U) == 0 ? (bits & 0x80000000U) >> 16 : nearest;
  return static_cast<short>(x != x ? bits >> 16 | 0x40U : finite);
}
inline __m512bh _mm512_cvtne2ps_pbh(__m512 upper, __m512 lower) {
  __m512bh halves = {};
  for (int i = 0; i < 16; ++i) {
    halves[i] = bf16_of_float(lower[i]);
    halves[16 + i] = bf16_of_float(upper[i]);
  }
  return halves;
}
inline __m512i _mm512_permutexvar_epi16(__m512i lanes, __m512i x) {
  using Halves [[gnu::vector_size(64), gnu::may_alias]] = short;
  const auto from = reinterpret_cast<Halves>(x), lane = reinterpret_cast<Halves>(lanes);
  Halves permuted = {};
  for (int i = 0; i < 32; ++i) permuted[i] = from[lane[i] & 31];
  return reinterpret_cast<__m512i>(permuted);
}
