// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lengths of the documents that a data rank will get, known before any of its micro-batches is read.

#include <cstdint>
#include <vector>

#include "sft/rows/loader.hpp"
#include "sft/rows/packed_dataset.hpp"

namespace sft::rows {

/// A micro-batch as the one row that it is computed as.
struct ComingMicroBatch {
  std::int64_t row_length = 0;  ///< padding included, before the cut for sp
  std::vector<std::int32_t> documents;

  bool operator==(const ComingMicroBatch&) const = default;
};

/// The micro-batches of the plan's data rank from its first step on that have documents, until these are of max_rows
/// rows or the plan ends. Reads the lengths and weights of these rows; one thread at a time.
[[nodiscard]] std::vector<ComingMicroBatch> coming_documents(const PackedDataset& dataset, const LoaderPlan& plan,
                                                             std::int64_t max_rows);

}  // namespace sft::rows
