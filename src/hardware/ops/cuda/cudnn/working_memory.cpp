// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn/working_memory.hpp"

namespace sft::ops::cuda::cudnn {

std::int64_t rounded_tokens(std::int64_t tokens) {
  const auto power = static_cast<std::int64_t>(std::bit_floor<std::uint64_t>(std::max<std::int64_t>(tokens, 1)));
  const std::int64_t step = std::max<std::int64_t>(power / 4, 256);
  return (tokens + step - 1) / step * step;
}

std::size_t squares_bytes(std::int64_t num_queries) {
  const auto most = static_cast<std::size_t>(max_blocks_of_documents(num_queries) / least_longest);
  return padded(most * 4) + most_row_lengths * padded((most + 1) * 8);
}

// Rows of tails differ no more than most_row_lengths on either side: of queries those of q, out, dout, dq and lse, of
// keys those of keys and of their gradients; lse and what is of keys come with two numbers of heads.
std::size_t tails_bytes(std::int64_t num_queries) {
  constexpr std::size_t num_sides = 2;
  return max_tail_calls * num_sides * squares_bytes(num_queries);
}

// Lists of each rectangle: queries come in pieces of two lengths, because the last one is shorter, and keys in one.
// Rows of q, of the sums and of the log-sum-exp are apart by different numbers, so are those of k and v. In the
// backward pass q, k and v may have other rows, where heads are exchanged, beside those of out and dout; dq has the
// rows of the sums, dk and dv have one.
std::size_t rectangle_lists_bytes(bool has_backward) {
  constexpr std::size_t lengths = 2 + 1, forward_offsets = 2 * 3 + 2, backward_offsets = 2 * 3 + 2 + 1;
  const std::size_t offsets = forward_offsets + (has_backward ? backward_offsets : 0);
  return max_rectangles * (lengths + offsets) * plan_granularity_bytes;
}

std::size_t pool_bytes(const AttentionNeeds& needs) {
  const auto& library = needs.library;
  if (library.tokens == 0) return 0;
  // Two generations of plans at a time, anywhere in the pool: see plan_pool_bytes.
  const bool are_tails = library.key_tokens > 0;
  std::size_t bytes = 3 * static_cast<std::size_t>(needs.num_kinds) *
                      (are_tails ? tails_bytes(library.tokens) : squares_bytes(library.tokens));
  if (library.merges) {
    bytes +=
        3 * static_cast<std::size_t>(needs.num_kinds * needs.num_plans) * rectangle_lists_bytes(library.has_backward);
    bytes +=
        padded(rectangle_sums_bytes(std::min(library.tokens, rectangle_rows()), library.q_heads, library.head_dim));
  }
  if (!library.has_backward) return bytes + padded(forward_bytes);
  const std::int64_t key_tokens = are_tails ? library.key_tokens : library.tokens;
  const std::int64_t q_row = library.q_heads * library.head_dim, k_row = library.kv_heads * library.head_dim;
  const std::int64_t result_row = library.dq_row > 0 ? library.dq_row : q_row + 2 * k_row;
  const bool is_dq_copied = are_tails || library.merges;  // out of contiguous rows, no fewer than those of rectangles
  const std::int64_t dq_row =
      is_dq_copied ? q_row : written_dq_row(result_row, library.q_heads, library.kv_heads, library.head_dim);
  if (is_dq_copied || dq_row != result_row) bytes += bf16_bytes(library.tokens, dq_row);
  return bytes + 2 * bf16_bytes(key_tokens, k_row) +
         padded(backward_bytes({.tokens = rounded_tokens(library.tokens),
                                .key_tokens = rounded_tokens(key_tokens),
                                .q_heads = library.q_heads,
                                .kv_heads = library.kv_heads,
                                .head_dim = library.head_dim,
                                .dq_row = dq_row}));
}

}  // namespace sft::ops::cuda::cudnn
