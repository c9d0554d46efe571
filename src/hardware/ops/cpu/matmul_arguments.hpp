// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arguments of products by the CPU backend's own kernels, and the scratch that they take.

#include <cstdint>

namespace sft::ops::cpu {

/// c (m, n) = a (m, k) b (k, n) [+ bias (n)] [+ c], float32 unless stated.
struct MatmulArguments {
  const void *a, *b;
  std::int64_t a_row_stride, a_column_stride, b_row_stride, b_column_stride;
  const void* bias;  ///< may be null
  void* c;
  std::int64_t c_stride;
  std::int64_t m, n, k;
  bool accumulate;
  bool has_bf16_operands = false;  ///< a and b
  bool has_bf16_bias = false;
  bool has_bf16_result = false;  ///< c, with bf16 operands, which is rounded once
};
/// Columns of b that are worked on at a time; small_matmul takes scratch for k x this many doubles.
inline constexpr std::int64_t small_matmul_panel = 16;

/// Rows of a and terms of sums that packed_matmul works on at a time: copies of 144 KiB for a second-level cache of 512
/// KiB, and panels of b of 16 KiB for a first-level cache of 32 KiB. Measured on Zen 4 with AVX2; 72 to 240 rows and
/// 192 to 512 terms differ by less than 3 %.
inline constexpr std::int64_t packed_block_rows = 144, packed_block_depth = 256;
/// Columns of b at a time: more let copies of a be read more often. The copy, 1.5 MiB, shares the third-level cache.
inline constexpr std::int64_t packed_block_columns = 1536;
/// Rows of a bf16 result at a time, whose sums are float32 in scratch; b is copied anew for each.
inline constexpr std::int64_t packed_sum_rows = 4 * packed_block_rows;
/// Scratch of packed_matmul for so many columns at a time, a multiple of 64; it takes no fewer than 64.
constexpr std::int64_t packed_matmul_floats(std::int64_t columns, bool has_bf16_result) {
  constexpr std::int64_t behind_copies = 16;
  const std::int64_t sums = has_bf16_result ? packed_sum_rows * columns : 0;
  return (packed_block_rows + columns) * packed_block_depth + 2 * behind_copies + sums;
}

}  // namespace sft::ops::cpu
