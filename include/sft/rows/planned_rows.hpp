// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows that are not there yet, to plan a run with: what is known of a data set before anything is prepared.

#include <cstdint>

#include "sft/rows/packed_dataset.hpp"

namespace sft::rows {

/// A data set of `num_rows` (from 1) rows of `max_length` tokens of `vocab_size`, each one full document that is
/// trained on but for its first token. It has facts and a row table, and no row to read: its one file has the name "".
/// Pure.
[[nodiscard]] PackedDataset planned_rows(std::int64_t num_rows, std::int64_t max_length, std::int64_t vocab_size);

/// Whether the data set is one of planned_rows().
[[nodiscard]] bool is_planned(const PackedDataset& dataset);

}  // namespace sft::rows
