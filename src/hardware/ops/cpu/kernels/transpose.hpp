// SPDX-License-Identifier: Apache-2.0
#pragma once
// Transposition of 32-bit words in registers: floats, or pairs of bf16.

#include <utility>

#include "ops/cpu/kernels/tile.hpp"

namespace sft::ops::cpu::SFT_ISA {

using Words [[gnu::vector_size(SFT_VECTOR_BITS / 8)]] = std::int32_t;
using UnalignedWords [[gnu::vector_size(SFT_VECTOR_BITS / 8), gnu::aligned(4), gnu::may_alias]] = std::int32_t;

/// Lane `lane` of what exchange leaves in row i (is_first) or i + step, as an index into the lanes of both.
constexpr int exchanged_lane(int lane, int step, bool is_first) {
  const bool is_low = (lane & step) == 0;
  if (is_first) return is_low ? lane : static_cast<int>(vector_floats) + lane - step;
  return is_low ? lane + step : static_cast<int>(vector_floats) + lane;
}

/// Exchanges the off-diagonal blocks of size `step` between rows i and i + step. `lanes`: 0, 1 and so on, all of them.
template <int step, int... lanes>
inline void exchange(Words (&rows)[vector_floats], std::integer_sequence<int, lanes...>) {
#pragma GCC unroll 16
  for (int i = 0; i < vector_floats; ++i) {
    if ((i & step) != 0) continue;
    const Words a = rows[i], b = rows[i + step];
    rows[i] = __builtin_shufflevector(a, b, exchanged_lane(lanes, step, true)...);
    rows[i + step] = __builtin_shufflevector(a, b, exchanged_lane(lanes, step, false)...);
  }
}

template <int step>
inline void exchange(Words (&rows)[vector_floats]) {
  exchange<step>(rows, std::make_integer_sequence<int, static_cast<int>(vector_floats)>());
}

/// The transpose of a square of vector_floats rows.
inline void transpose(Words (&rows)[vector_floats]) {
  if constexpr (vector_floats > 8) exchange<8>(rows);
  if constexpr (vector_floats > 4) exchange<4>(rows);
  exchange<2>(rows);
  exchange<1>(rows);
}

/// out (columns, rows) = transpose of in (rows, columns), both multiples of vector_floats.
inline void transpose(std::int32_t* out, std::int64_t out_stride, const std::int32_t* in, std::int64_t in_stride,
                      Extent size) {
  for (std::int64_t r = 0; r < size.rows; r += vector_floats) {
    for (std::int64_t c = 0; c < size.columns; c += vector_floats) {
      Words rows[vector_floats];
#pragma GCC unroll 16
      for (int i = 0; i < vector_floats; ++i) {
        rows[i] = *reinterpret_cast<const UnalignedWords*>(in + (r + i) * in_stride + c);
      }
      transpose(rows);
#pragma GCC unroll 16
      for (int i = 0; i < vector_floats; ++i) {
        *reinterpret_cast<UnalignedWords*>(out + (c + i) * out_stride + r) = rows[i];
      }
    }
  }
}

inline void transpose(float* out, std::int64_t out_stride, const float* in, std::int64_t in_stride, Extent size) {
  transpose(reinterpret_cast<std::int32_t*>(out), out_stride, reinterpret_cast<const std::int32_t*>(in), in_stride,
            size);
}

}  // namespace sft::ops::cpu::SFT_ISA
