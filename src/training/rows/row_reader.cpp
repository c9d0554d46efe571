// SPDX-License-Identifier: Apache-2.0
#include "rows/row_reader.hpp"

#include <fmt/core.h>
#include <span>
#include <utility>

#include "rows/step_rows.hpp"
#include "sft/core/error.hpp"

namespace sft::rows {

namespace {

/// The numbers of the rows of each micro-batch of a step.
using StepNumbers = std::vector<std::vector<std::int64_t>>;

class RowReader {
 public:
  RowReader(const PackedDataset& dataset, const LoaderPlan& plan) : dataset_(dataset), plan_(plan) {
    const RowColumns columns = columns_needed(dataset, plan);
    const RowTable& held = dataset.row_table();
    if (columns.lengths && held.lengths.empty()) read_.lengths = dataset.row_lengths();
    if (columns.counts && held.counts.empty()) read_.counts = dataset.row_counts();
    if (columns.lengths) lengths_ = held.lengths.empty() ? read_.lengths : held.lengths;
    if (columns.counts) counts_ = held.counts.empty() ? read_.counts : held.counts;
  }

  [[nodiscard]] StepRows step_rows() const { return {dataset_.num_rows(), plan_, lengths_}; }

  /// Counts of rows that are read later.
  [[nodiscard]] BatchCounts count(const StepNumbers& numbers) const {
    BatchCounts counts;
    for (const std::vector<std::int64_t>& part : numbers) {
      for (const std::int64_t row : part) counts += counts_.empty() ? count(dataset_.read_labels(row)) : counts_[row];
    }
    return counts;
  }

  [[nodiscard]] MicroBatchRows read(const std::vector<std::int64_t>& numbers) const {
    MicroBatchRows batch;
    batch.numbers = numbers;
    batch.rows.reserve(numbers.size());
    for (const std::int64_t number : numbers) {
      batch.rows.push_back(dataset_.read_row(number));
      if (!counts_.empty() && count(batch.rows.back()) != counts_[number]) refuse(number);
    }
    batch.counts = count_rows(batch.rows);
    return batch;
  }

 private:
  [[nodiscard]] static BatchCounts count(const Row& row) { return count_row(row.document_lengths, row.loss_weight); }

  [[noreturn]] void refuse(std::int64_t number) const {
    throw_data_error(fmt::format("cannot use row {} of the data set of '{}'", number, dataset_.files().front()),
                     "its counts are not those that the table of rows in its file says, which the loss was divided by",
                     "look at it with sft-inspect --verify, and write it again with sft-prepare");
  }

  const PackedDataset& dataset_;
  const LoaderPlan& plan_;
  RowTable read_;  ///< what the data set does not hold
  std::span<const std::int32_t> lengths_;
  std::span<const BatchCounts> counts_;
};

}  // namespace

RowColumns columns_needed(const PackedDataset& dataset, const LoaderPlan& plan) {
  return {.lengths = StepRows::are_dealt(dataset, plan), .counts = plan.micro_batches > 1 && dataset.has_row_counts()};
}

void read_micro_batches(const PackedDataset& dataset, const LoaderPlan& plan,
                        const std::function<bool(const std::function<MicroBatchRows()>& read)>& push) {
  if (plan.first_step >= plan.last_step) return;
  const RowReader reader(dataset, plan);
  StepRows step_rows = reader.step_rows();
  for (std::int64_t step = plan.first_step; step < plan.last_step; ++step) {
    auto slots = step_rows.slots(step);
    StepNumbers mine;
    for (std::int64_t micro = 0; micro < plan.micro_batches; ++micro) {
      mine.push_back(std::move(slots[micro * plan.data_size + plan.data_rank]));
    }
    const bool is_whole = mine.size() == 1;  // then its counts are those of the rows that are read anyway
    const BatchCounts counts = is_whole ? BatchCounts{} : reader.count(mine);
    for (const std::vector<std::int64_t>& numbers : mine) {
      const auto read = [&] {
        MicroBatchRows batch = reader.read(numbers);
        batch.step_counts = is_whole ? batch.counts : counts;
        return batch;
      };
      if (!push(read)) return;
    }
  }
}

MicroBatch cut(const MicroBatchRows& rows, const LoaderPlan& plan) {
  static const std::vector<Row> no_row(1);
  MicroBatch batch = cut_rows(rows.rows.empty() ? no_row : rows.rows, plan.sp_size, plan.sp_rank, plan.attention_method,
                              plan.local_multiple, plan.attention_windows);
  batch.counts = rows.counts;
  batch.step_counts = rows.step_counts;
  batch.rows = rows.numbers;
  return batch;
}

}  // namespace sft::rows
