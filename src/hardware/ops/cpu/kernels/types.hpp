// SPDX-License-Identifier: Apache-2.0
#pragma once
// Element types and loops of the kernels. SFT_ISA is the namespace of the instruction set being compiled for.

#include "ops/cpu/scratch.hpp"
#include "ops/views/tensor.hpp"

namespace sft::ops::cpu::SFT_ISA {

struct Bf16 {
  std::uint16_t bits;
};

inline float load(float x) { return x; }
inline float load(Bf16 x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16); }

/// x in the precision of T: bf16 rounds to nearest even, and a NaN stays one.
template <class T>
inline float rounded(float x) {
  if constexpr (sizeof(T) == sizeof(float)) return x;
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  return __builtin_bit_cast(float, x != x ? 0x7fc00000u : nearest);
}

inline void store(float& destination, float x) { destination = x; }
inline void store(Bf16& destination, float x) {
  destination.bits = static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, rounded<Bf16>(x)) >> 16);
}

/// Stores x exactly, or rounded at random by the lowest 16 of `bits`.
inline void store_at_random(float& destination, float x, std::uint64_t) { destination = x; }
inline void store_at_random(Bf16& destination, float x, std::uint64_t bits) {
  const std::uint32_t sum = __builtin_bit_cast(std::uint32_t, x) + (static_cast<std::uint32_t>(bits) & 0xffffu);
  destination.bits = static_cast<std::uint16_t>((x != x ? 0x7fc00000u : sum) >> 16);
}

template <class T>
T* row(const View& view, std::int64_t index) {
  return static_cast<T*>(view.data) + index * view.stride;
}
template <class T>
const T* row(const ConstView& view, std::int64_t index) {
  return static_cast<const T*>(view.data) + index * view.stride;
}

/// The size of a part of a matrix.
struct Extent {
  std::int64_t rows, columns;
};

template <class T>
struct Type {
  using type = T;
};

/// Calls f with Type<float> or Type<Bf16>, as the view says.
template <class Memory, class F>
void with_type(const BasicView<Memory>& view, F f) {
  if (view.is_bf16) {
    f(Type<Bf16>{});
  } else {
    f(Type<float>{});
  }
}

/// Loops over fewer elements are not worth waking threads for.
inline constexpr std::int64_t min_parallel_elements = 16384;

inline std::int64_t min(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
inline std::int64_t max(std::int64_t a, std::int64_t b) { return a < b ? b : a; }
inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

/// Column sums over rows are formed in blocks of rows that depend on the shape alone, so that results do not depend on
/// the number of threads: block b covers rows [b * rows, (b + 1) * rows) and sums into its own row of the scratch, of
/// max(column_sum_floats, num_columns) floats at most.
struct RowBlocks {
  std::int64_t count, rows;
  RowBlocks(std::int64_t num_rows, std::int64_t num_columns) {
    const std::int64_t limit = min(64, column_sum_floats / max(num_columns, 1));
    rows = max(divide_up(num_rows, max(limit, 1)), 8);
    count = divide_up(num_rows, rows);
  }
};

/// sums (num_columns) += the rows of partials (count, num_columns).
inline void add_rows(float* sums, const float* partials, std::int64_t count, std::int64_t num_columns) {
  for (std::int64_t block = 0; block < count; ++block) {
#pragma omp simd
    for (std::int64_t c = 0; c < num_columns; ++c) sums[c] += partials[block * num_columns + c];
  }
}

}  // namespace sft::ops::cpu::SFT_ISA
