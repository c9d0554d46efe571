// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which data rank computes which rows of a step, and in which micro-batch, so that no rank waits long for another. Free
// to choose: the loss is a sum over all rows of the step.

#include <cstdint>
#include <span>
#include <vector>

#include "sft/rows/loader.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "sft/rows/row_order.hpp"

namespace sft::rows {

/// The slots of a step: one for each data rank in each micro-batch, with room for so many rows.
struct StepSlots {
  std::int64_t micro_batches = 1;
  int data_size = 1;
  std::int64_t rows_per_slot = 1;
};

/// The rows of each slot, by their index in `lengths`, ascending; slot micro_batch * data_size + data_rank. `lengths`
/// are the tokens of the rows of a step, at most as many rows as there is room for.
///
/// Ranks wait for each other in every micro-batch (gathers, sums), so a step takes as long as the fullest slot of each
/// micro-batch together. Rows stay in their order, slot after slot, where that costs at most 2 % more than dealing
/// them: longest first, each into the emptiest slot with room (Graham 1969), then slots of like size into the same
/// micro-batch. A function of its arguments alone, so all ranks agree without a word.
[[nodiscard]] std::vector<std::vector<std::int64_t>> deal_rows(const std::vector<std::int32_t>& lengths,
                                                               const StepSlots& slots);

/// The rows of each step of a run.
class StepRows {
 public:
  /// Whether it matters which data rank has which row, and the lengths of so many rows fit in memory.
  [[nodiscard]] static bool are_dealt(const PackedDataset& dataset, const LoaderPlan& plan);

  /// `lengths`: those of all rows of the data set, in file order, which outlive the object; empty: all count the same,
  /// so rows keep their order.
  StepRows(std::int64_t num_rows, const LoaderPlan& plan, std::span<const std::int32_t> lengths);

  /// Numbers of rows in file order, by slot: micro_batch * data_size + data_rank.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> slots(std::int64_t step);

 private:
  LoaderPlan plan_;
  StepPositions positions_;
  RowOrder order_;
  std::span<const std::int32_t> lengths_;
};

}  // namespace sft::rows
