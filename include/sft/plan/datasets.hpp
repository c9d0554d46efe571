// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "sft/config/valid_config.hpp"
#include "sft/data/micro_batch_limits.hpp"
#include "sft/data/packed_dataset.hpp"

namespace sft::plan {

/// What a run reads: opened, and checked against its configuration.
struct Datasets {
  data::PackedDataset train;
  std::optional<data::PackedDataset> eval;  ///< rows to evaluate on, not longer than those of `train`; empty: none
  std::optional<data::MicroBatchLimits> measured_limits = {};  ///< as measure_limits says; empty: rows may be full

  /// What memory is laid out for.
  [[nodiscard]] data::MicroBatchLimits limits(const config::ValidConfig& config) const {
    return measured_limits.value_or(
        data::limits_of_full_rows(config->train.per_device_train_batch_size, train.max_length()));
  }
};

/// Of the micro-batches of training, from its first step on, and of evaluation: reads the document tables.
[[nodiscard]] data::MicroBatchLimits measure_limits(const config::ValidConfig& config, const Datasets& datasets);

}  // namespace sft::plan
