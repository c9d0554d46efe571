// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a row of tokens is cut for sequence parallelism: the one place that knows. Pure.
//
// sp_size ranks share every row in 2 sp_size equal chunks; rank r holds chunks r and 2 sp_size - 1 - r (zigzag, Zhu
// 2024): an early chunk, which sees few keys, and a late one, which sees many, so that all ranks do equal causal work.
// One rank alone holds the whole row.

#include <cstdint>
#include <vector>

namespace sft::sequence {

/// Rows must be a multiple of this many tokens: 2 sp_size, or 1 for one rank; and such that the tokens of each rank are
/// a multiple of `local_multiple`.
[[nodiscard]] std::int64_t row_multiple(int sp_size, int local_multiple = 1);

/// What a row of `length` tokens must be padded to: the next multiple.
[[nodiscard]] std::int64_t padded_row_length(std::int64_t length, int sp_size, int local_multiple = 1);

/// Length of the one row that a micro-batch is computed as: `num_tokens` tokens of documents, one after the other, and
/// padding behind them. The tokens of a rank are rounded up to the next of 16 lengths in every power of two (4 % more
/// in the mean), because every length costs the ops preparation and memory of its own, then to a multiple of
/// `local_multiple`; a micro-batch without a token has the least length, for its ranks take part in what others do. At
/// most `padded_row_length(max_tokens)`, where num_tokens <= max_tokens.
[[nodiscard]] std::int64_t joined_row_length(std::int64_t num_tokens, std::int64_t max_tokens, int sp_size,
                                             int local_multiple = 1);

/// A run of neighbouring tokens of one row that a rank holds.
struct Chunk {
  std::int64_t local;   ///< its first token's index among those of the row that the rank holds
  std::int64_t global;  ///< its first token's index in the row
  std::int64_t length;
};

/// Rows of one length over the ranks of an sp group. The rows of a micro-batch are joined to one first.
class RowCut {
 public:
  /// Throws std::logic_error unless sp_size >= 1 and `length` is a multiple of row_multiple(sp_size).
  RowCut(std::int64_t length, int sp_size);

  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] int sp_size() const { return sp_size_; }
  /// Tokens of a row on each rank.
  [[nodiscard]] std::int64_t local_length() const { return length_ / sp_size_; }
  /// What sp rank `sp_rank` holds of a row, in local order. Throws std::logic_error for a rank outside the group.
  [[nodiscard]] std::vector<Chunk> chunks(int sp_rank) const;

 private:
  std::int64_t length_;
  int sp_size_;
};

}  // namespace sft::sequence
