// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels that are no ops by themselves: parts of several ops, and of products. Each is queued on `stream`.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

/// Every row of x += bias (columns).
void add_bias(View x, Weight bias, cudaStream_t stream);

/// Rows of results, group by group. Arrays are in device memory.
struct BiasRows {
  void* const* c;             ///< (G) where the rows of a group begin
  const void* const* biases;  ///< (G) of num_columns
  const std::uint64_t* ends;  ///< (G) rows of this group and of all before it
  std::int64_t num_groups, num_rows, num_columns;
  bool is_bf16;     ///< c and biases; else float32
  bool is_aligned;  ///< c and biases begin at multiples of 16 bytes
  std::int64_t stride = 0;
};
/// Every row becomes the bias of its group.
void fill_biases(const BiasRows& rows, cudaStream_t stream);

// Token positions in the order of their ids: a stable radix sort (least significant digit first, 8 bits a pass) of
// tiles (Satish, Harris & Garland 2009), the same whatever the schedule.

inline constexpr std::int64_t sort_tile = 2048;  ///< elements that a block sorts
inline constexpr std::int64_t sort_digits = 256;

/// Keys and the values that travel with them.
struct Pairs {
  std::uint32_t *keys, *values;
};

/// Fills `pairs` with (id of token - vocab_begin, position), ids outside [0, num_ids) becoming num_ids, sorts by id and
/// returns which of `pairs` and `other` holds the result, the other being scratch. Each has num_tokens entries,
/// `counts` sort_digits for each started sort_tile. Moves 12 bytes a token, and about 23 more in each pass.
[[nodiscard]] Pairs sort_tokens(const std::int32_t* tokens, std::int64_t num_tokens, std::int64_t vocab_begin,
                                std::int64_t num_ids, Pairs pairs, Pairs other, std::uint32_t* counts,
                                cudaStream_t stream);

// Sums over many elements, in two stages and always in the same order: partial sums of pieces that follow from the
// shape alone, then their sum.

/// Device memory that SumSquares works in.
inline constexpr std::size_t sum_squares_bytes = 1024 * sizeof(double);

/// sums (columns) += the rows of partials (num_rows, columns), float32.
void add_rows(float* sums, const float* partials, std::int64_t num_rows, std::int64_t columns, cudaStream_t stream);

/// Device memory that sums of columns work in.
[[nodiscard]] std::size_t column_sums_bytes(std::int64_t rows, std::int64_t columns);
/// Rows of partial sums, of `columns` float32 each, that the backward pass of a norm over rows leaves: at most 8 MiB,
/// or a few rows.
[[nodiscard]] std::int64_t rms_norm_backward_partials(std::int64_t rows, std::int64_t columns);
/// Rows of partial sums, of a head dim each, that the backward pass of a norm over `num_heads` heads of all tokens
/// leaves.
[[nodiscard]] std::int64_t norm_rope_backward_partials(std::int64_t num_heads);

// Small tables from host to device memory within a step.

/// Queues `stream` to write `bytes` bytes, a multiple of 16, to `destination` in device memory, aligned to 16. `source`
/// is ordinary host memory and is read before the call returns; nothing waits. For tables of kilobytes: the bytes
/// travel as the arguments of kernels, 3840 each, so that neither pinned memory nor a copy that waits for it is needed.
void upload(void* destination, const void* source, std::size_t bytes, cudaStream_t stream);

}  // namespace sft::ops::cuda
