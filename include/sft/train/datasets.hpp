// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "sft/data/packed_dataset.hpp"

namespace sft::train {

/// What a run reads: opened, and checked against its configuration.
struct Datasets {
  data::PackedDataset train;
  std::optional<data::PackedDataset> eval;  ///< rows to evaluate on, not longer than those of `train`; empty: none
};

}  // namespace sft::train
