// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one rank computes on: its part of the rows of one micro-batch.

#include <cstdint>
#include <vector>

#include "sft/data/packed_dataset.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::data {

/// Sums over whole rows, those that a data rank holds in a micro-batch or in a step.
struct BatchCounts {
  std::int64_t num_tokens = 0;         ///< tokens of documents, padding excluded
  std::int64_t num_target_tokens = 0;  ///< tokens with weight > 0 that can be predicted
  double weight_sum = 0.0;             ///< sum of their weights
  double length_squares = 0.0;         ///< sum of squared document lengths, for model FLOPs

  BatchCounts& operator+=(const BatchCounts& other);
};

/// This rank's part of the rows of a micro-batch. The documents of all rows are joined to one row, without the padding
/// between them, whose length is sequence::joined_row_length; it is cut as sequence::RowCut says. T, its tokens on this
/// rank, differs from one micro-batch to the next.
struct MicroBatch {
  std::vector<std::int32_t> tokens;     ///< (T)
  std::vector<std::int32_t> positions;  ///< (T), restart at every document; 0 in padding
  std::vector<std::int32_t> targets;    ///< (T), the next token of the same document; 0 where there is none
  std::vector<float> loss_weights;      ///< (T), the target's loss weight; 0 where there is none
  sequence::AttentionSchedule attention;
  BatchCounts counts;              ///< of its rows, before the sum over the data ranks
  BatchCounts step_counts;         ///< of this data rank's rows in all micro-batches of the step
  std::vector<std::int64_t> rows;  ///< its rows in file order, for error messages
};

/// Joins and cuts whole rows, at least one. Labels are shifted on the whole row before the cut; the first token of a
/// document is never a target. A row may be empty. T is a multiple of `local_multiple`. Counts and numbers of rows are
/// left to the caller.
[[nodiscard]] MicroBatch cut_rows(const std::vector<Row>& rows, int sp_size, int sp_rank,
                                  const sequence::AttentionMethod& method = {}, int local_multiple = 1);
[[nodiscard]] BatchCounts count_rows(const std::vector<Row>& rows);

}  // namespace sft::data
