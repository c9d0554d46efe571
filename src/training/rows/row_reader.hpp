// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the thread of a loader does: the rows of a data rank, micro-batch after micro-batch.

#include <cstdint>
#include <functional>
#include <vector>

#include "sft/rows/loader.hpp"

namespace sft::rows {

/// The rows of a micro-batch, whole, and their counts.
struct MicroBatchRows {
  std::vector<Row> rows;
  std::vector<std::int64_t> numbers;  ///< of the rows, in file order
  BatchCounts counts, step_counts;    ///< as in MicroBatch
};

/// Calls push(read) for each micro-batch of the plan in order, read() reading its rows, until push returns false. The
/// counts of a step of several micro-batches are those of the data set's row table, and where that has none, those of
/// labels that are read before.
void read_micro_batches(const PackedDataset& dataset, const LoaderPlan& plan,
                        const std::function<bool(const std::function<MicroBatchRows()>& read)>& push);

/// This rank's part of the rows.
[[nodiscard]] MicroBatch cut(const MicroBatchRows& rows, const LoaderPlan& plan);

}  // namespace sft::rows
