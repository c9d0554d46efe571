// SPDX-License-Identifier: Apache-2.0
#include "rows/step_rows.hpp"

namespace sft::rows {

bool StepRows::are_dealt(const PackedDataset& dataset, const LoaderPlan& plan) {
  return plan.data_size > 1 && dataset.num_rows() <= max_rows_dealt;
}

StepRows::StepRows(std::int64_t num_rows, const LoaderPlan& plan, std::span<const std::int32_t> lengths)
    : plan_(plan),
      positions_{plan.order, num_rows, plan.rows_per_step(), plan.origin},
      order_(plan.order, num_rows, plan.shuffle, plan.seed),
      lengths_(lengths) {}

std::vector<std::vector<std::int64_t>> StepRows::slots(std::int64_t step) {
  const std::int64_t first = positions_.begin(step), end = positions_.begin(step + 1);
  std::vector<std::int64_t> rows;
  std::vector<std::int32_t> lengths;
  for (std::int64_t position = first; position < end; ++position) {
    rows.push_back(order_.row_at(position));
    lengths.push_back(lengths_.empty() ? 1 : lengths_[rows.back()]);
  }
  auto slots = deal_rows(lengths, {plan_.micro_batches, plan_.data_size, plan_.rows_per_micro_batch});
  for (std::vector<std::int64_t>& slot : slots) {
    for (std::int64_t& row : slot) row = rows[row];
  }
  return slots;
}

}  // namespace sft::rows
