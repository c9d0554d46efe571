// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one rank computes on: its part of the rows of one micro-batch.

#include <cstdint>
#include <span>
#include <vector>

#include "sft/rows/packed_dataset.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::rows {

/// Neighbouring tokens of one row that a rank holds.
struct RowPart {
  std::int64_t local;       ///< its first token's index among those of the rank
  std::int64_t from;        ///< and among those of the row's documents
  std::int64_t num_tokens;  ///< in the part
  std::int64_t row_tokens;  ///< in the documents of the whole row
  std::size_t row;          ///< its place among the rows of the micro-batch
};

/// This rank's part of the rows of a micro-batch. The documents of all rows are joined to one row, without the padding
/// between them, whose length is sequence::joined_row_length; it is cut as sequence::RowCut says. T, its tokens on this
/// rank, differs from one micro-batch to the next.
struct MicroBatch {
  std::vector<std::int32_t> tokens;        ///< (T)
  std::vector<std::int32_t> positions;     ///< (T), restart at every document; 0 in padding
  std::vector<std::int32_t> targets;       ///< (T), the next token of the same document; 0 where there is none
  std::vector<float> loss_weights;         ///< (T), the target's loss weight; 0 where there is none
  std::vector<RowPart> row_parts;          ///< all tokens but the padding, in local order
  sequence::AttentionSchedules attention;  ///< one for each kind of attention
  /// What the window of each kind takes from BatchCounts::length_squares of its rows: of a document that is longer, the
  /// square of what lies in front of the window of its last token.
  IndexedVector<sequence::AttentionKind, double> masked_squares;
  BatchCounts counts;              ///< of its rows, before the sum over the data ranks
  BatchCounts step_counts;         ///< of this data rank's rows in all micro-batches of the step
  std::vector<std::int64_t> rows;  ///< its rows in file order, for error messages
};

/// Joins and cuts whole rows, at least one. Labels are shifted on the whole row before the cut; the first token of a
/// document is never a target. A row may be empty. T is a multiple of `local_multiple`. Counts and numbers of rows are
/// left to the caller. `windows`: of the kinds of attention that the layers have.
[[nodiscard]] MicroBatch cut_rows(const std::vector<Row>& rows, int sp_size, int sp_rank,
                                  const sequence::AttentionMethod& method = {}, int local_multiple = 1,
                                  const sequence::AttentionWindows& windows = {0});
[[nodiscard]] BatchCounts count_rows(const std::vector<Row>& rows);
/// Counts the tokens and targets of one row, for which the tokens themselves are not needed.
[[nodiscard]] BatchCounts count_row(std::span<const std::int32_t> document_lengths, std::span<const float> loss_weight);

}  // namespace sft::rows
