// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which rows every data rank has in every micro-batch of a step.

#include <cstdint>
#include <vector>

#include "sft/data/loader.hpp"
#include "sft/data/packed_dataset.hpp"
#include "sft/data/row_order.hpp"

namespace sft::data {

class StepRows {
 public:
  /// Whether it matters which data rank has which row, and the lengths of so many rows fit in memory.
  [[nodiscard]] static bool are_dealt(const PackedDataset& dataset, const LoaderPlan& plan);

  /// `lengths`: those of all rows of the data set, in file order; empty: all count the same, so rows keep their order.
  StepRows(std::int64_t num_rows, const LoaderPlan& plan, std::vector<std::int32_t> lengths);

  /// Numbers of rows in file order, by slot: micro_batch * data_size + data_rank.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> slots(std::int64_t step);

 private:
  LoaderPlan plan_;
  StepPositions positions_;
  RowOrder order_;
  std::vector<std::int32_t> lengths_;
};

}  // namespace sft::data
