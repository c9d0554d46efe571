// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stands in for the compiler's <immintrin.h> where kernels for AMX are compiled for any processor: those of its
// intrinsics that src/hardware/ops/cpu/kernels calls there. Tiles are those of tile_registers.hpp, vectors the compiler's own.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "unit/ops/amx/tile_registers.hpp"

using __m128i [[gnu::vector_size(16), gnu::may_alias]] = long long;
using __m512 [[gnu::vector_size(64), gnu::may_alias]] = float;
using __m512i [[gnu::vector_size(64), gnu::may_alias]] = long long;
using __m512bh [[gnu::vector_size(64), gnu::may_alias]] = short;

inline void _tile_loadconfig(const void* config) { sft::ops::testing::tiles_of_thread().configure(config); }
inline void _tile_release() { sft::ops::testing::tiles_of_thread().release(); }
inline void _tile_zero(int tile) { sft::ops::testing::tiles_of_thread().zero(tile); }
inline void _tile_loadd(int tile, const void* base, std::ptrdiff_t stride) {
  sft::ops::testing::tiles_of_thread().load(tile, base, stride);
}
inline void _tile_stream_loadd(int tile, const void* base, std::ptrdiff_t stride) { _tile_loadd(tile, base, stride); }
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
inline __m128i _mm_loadu_si128(const __m128i* from) {
  __m128i x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}
inline __m512i _mm512_loadu_si512(const void* from) {
  __m512i x;
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
inline __m512i _mm512_castsi128_si512(__m128i x) { return __m512i{x[0], x[1]}; }
inline __m512i _mm512_inserti32x4(__m512i x, __m128i quarter, int place) {
  x[2 * place] = quarter[0];
  x[2 * place + 1] = quarter[1];
  return x;
}

/// The lower (first = 0) or upper numbers of each quarter of a and b in turn.
template <class Numbers>
__m512i interleaved(__m512i a, __m512i b, std::size_t first) {
  constexpr std::size_t of_quarter = 16 / sizeof(Numbers{}[0]);
  const auto from_a = reinterpret_cast<Numbers>(a), from_b = reinterpret_cast<Numbers>(b);
  Numbers mixed = {};
  for (std::size_t quarter = 0; quarter < 4; ++quarter) {
    for (std::size_t i = 0; i < of_quarter / 2; ++i) {
      const std::size_t to = quarter * of_quarter + 2 * i, from = quarter * of_quarter + first * of_quarter / 2 + i;
      mixed[to] = from_a[from];
      mixed[to + 1] = from_b[from];
    }
  }
  return reinterpret_cast<__m512i>(mixed);
}
using Halves512 [[gnu::vector_size(64), gnu::may_alias]] = short;
using Words512 [[gnu::vector_size(64), gnu::may_alias]] = int;
inline __m512i _mm512_unpacklo_epi16(__m512i a, __m512i b) { return interleaved<Halves512>(a, b, 0); }
inline __m512i _mm512_unpackhi_epi16(__m512i a, __m512i b) { return interleaved<Halves512>(a, b, 1); }
inline __m512i _mm512_unpacklo_epi32(__m512i a, __m512i b) { return interleaved<Words512>(a, b, 0); }
inline __m512i _mm512_unpackhi_epi32(__m512i a, __m512i b) { return interleaved<Words512>(a, b, 1); }
