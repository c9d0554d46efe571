// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long the rows of prepared data are, for plans of time: a step costs what its tokens cost, and attention what the
// squares of its documents' lengths do.

#include <cstdint>
#include <vector>

#include "sft/rows/packed_dataset.hpp"

namespace sft::planner {

struct RowLengths {
  double row_tokens = 0;       ///< of a row in the mean, padding left out
  double document_tokens = 0;  ///< of documents, the sum of squares by the sum: as many as that of equal ones

  /// One document a row, as long as a row may be.
  [[nodiscard]] static RowLengths of_full_rows(std::int64_t max_length) {
    return {static_cast<double>(max_length), static_cast<double>(max_length)};
  }
  /// Of all rows of `data`. Where the shards do not hold the squares, documents are taken to be equally long. Reads the
  /// counts of rows.
  [[nodiscard]] static RowLengths of(const rows::PackedDataset& data);
};

/// The lengths of the documents of `num_rows` such rows: their sum, and nearly the sum of their squares, is that of the
/// mean of so many rows. Pure.
[[nodiscard]] std::vector<std::int32_t> mean_documents(const RowLengths& lengths, std::int64_t num_rows);

}  // namespace sft::planner
