// SPDX-License-Identifier: Apache-2.0
#pragma once
// How large the micro-batches of a run are, known before it: what memory is laid out for.

#include <cstdint>

#include "sft/rows/loader.hpp"

namespace sft::rows {

struct MicroBatchLimits {
  std::int64_t tokens = 1;           ///< of any data rank, padding included, before the cut for sp: at most
  std::int64_t document_tokens = 1;  ///< of one document, at most
  std::int64_t num_lengths = 1;      ///< different numbers of tokens

  MicroBatchLimits& operator|=(const MicroBatchLimits& other);
};

/// The limits of micro-batches of `num_rows` rows that may be full, of `max_length` tokens.
[[nodiscard]] MicroBatchLimits limits_of_full_rows(std::int64_t num_rows, std::int64_t max_length);

/// The limits of all steps of `plan` on all data ranks: exact, from the lengths of the rows, where the steps visit at
/// most 2^23 rows. Of longer runs, and of those that went on with another batch, the longest rows of the data set could
/// meet in one micro-batch, and of more than 2^24 rows full ones. Reads the document tables; one thread at a time.
[[nodiscard]] MicroBatchLimits measure_limits(const PackedDataset& dataset, const LoaderPlan& plan);

}  // namespace sft::rows
