// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that cuDNN's graphs of attention work in, and how their documents are rounded, as formulas: for plans of
// memory, in programs without CUDA too.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "ops/cuda/planning.hpp"
#include "sft/core/dtype.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::ops::cuda::cudnn {

/// The longest document of a graph has at least so many rows.
inline constexpr std::int64_t least_longest = 128;

/// The rows that a graph is made for where the longest document has so many: a power of two.
[[nodiscard]] constexpr std::int64_t rounded_longest(std::int64_t rows) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(rows, least_longest))));
}

/// Documents times the longest of them, both rounded up, are at most this in a plan of `num_rows` rows: thread blocks
/// of a library go through all of these, most of them to find that there is nothing.
[[nodiscard]] constexpr std::int64_t max_blocks_of_documents(std::int64_t num_rows) {
  constexpr std::int64_t max_spread = 32;
  return max_spread * std::max(num_rows, least_longest);
}

/// A plan of tails has so many calls at most: one for each chunk of a rank's queries.
inline constexpr std::size_t max_tail_calls = 2;

/// A plan has so many rectangles at most: a document that ranks share has one with each of them.
inline constexpr std::size_t max_rectangles = 4;

/// RowLengths keeps so many at most.
inline constexpr std::size_t most_row_lengths = 8;

/// Tokens that a graph of the backward pass is made for where there are `tokens`: a quarter more at most. Pure.
[[nodiscard]] std::int64_t rounded_tokens(std::int64_t tokens);

/// Bytes of a PlanPool for rows of bf16, `row` elements apart.
[[nodiscard]] constexpr std::size_t bf16_bytes(std::int64_t rows, std::int64_t row) {
  return padded(static_cast<std::size_t>(rows * row) * size_of(DType::bf16));
}

/// Bytes of a PlanPool for the documents of a plan of `num_queries` rows: squares, or tails. Pure.
[[nodiscard]] std::size_t squares_bytes(std::int64_t num_queries);
[[nodiscard]] std::size_t tails_bytes(std::int64_t num_queries);

/// Bytes of a PlanPool for the lists of a plan's rectangles, in both passes or the forward pass alone. Pure.
[[nodiscard]] std::size_t rectangle_lists_bytes(bool has_backward);

/// Bytes that the forward pass works with on GPUs of compute capability 9.0, at most.
inline constexpr std::size_t forward_bytes = std::size_t{64} << 10;

/// Queries of a rectangle that one call takes, at most: so many results wait in float32 to be merged. A program has one
/// number; that of sft_emulated is small, for rows that a test has the time for.
[[nodiscard]] std::int64_t rectangle_rows();

/// Bytes of such results and their log-sum-exp, of `rows` queries.
[[nodiscard]] constexpr std::size_t rectangle_sums_bytes(std::int64_t rows, std::int64_t q_heads,
                                                         std::int64_t head_dim) {
  return static_cast<std::size_t>(rows * q_heads * (head_dim + 1)) * sizeof(float);
}

/// Elements between the rows of dq that a backward pass writes where those of the result are `result_row` apart: as
/// many, if that is no more than in a fused product of the call's own heads; else its rows are contiguous and copied
/// then, as working memory grows with what lies between them.
[[nodiscard]] constexpr std::int64_t written_dq_row(std::int64_t result_row, std::int64_t q_heads,
                                                    std::int64_t kv_heads, std::int64_t head_dim) {
  return result_row <= (q_heads + 2 * kv_heads) * head_dim ? result_row : q_heads * head_dim;
}

/// Gradients of a backward pass whose dk and dv are contiguous.
struct BackwardRows {
  std::int64_t tokens, key_tokens;
  std::int64_t q_heads, kv_heads, head_dim;
  std::int64_t dq_row;  ///< elements between rows of dq
};

/// Bytes that the backward pass works with: float32 sums of dq, in its rows, and of dk and dv for every query head
/// where heads share keys; a sum for every row and head; a counter for every 64 queries and head of every document, in
/// numbers as max_blocks_of_documents lets them be. Of cuDNN 9.25 to 9.28, as these say themselves
/// (tests/cudnn_support).
[[nodiscard]] constexpr std::size_t backward_bytes(const BackwardRows& r) {
  constexpr std::int64_t float_bytes = sizeof(float), counter_bytes = 8, queries_of_counter = 64;
  const std::int64_t keys_row = r.q_heads == r.kv_heads ? 0 : 2 * r.q_heads * r.head_dim;
  const std::int64_t sums = r.tokens * (r.dq_row + r.q_heads) + r.key_tokens * keys_row;
  const std::int64_t counters = r.q_heads * (max_blocks_of_documents(r.tokens) / queries_of_counter) * counter_bytes;
  return static_cast<std::size_t>(sums * float_bytes + counters) + forward_bytes;
}

/// Bytes of a PlanPool for the calls of a model of these needs. Pure.
[[nodiscard]] std::size_t pool_bytes(const AttentionNeeds& needs);

}  // namespace sft::ops::cuda::cudnn
