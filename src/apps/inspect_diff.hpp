// SPDX-License-Identifier: Apache-2.0
#pragma once
// sft-inspect --diff: what two checkpoints, model folders or adapters have in common, and what not.

#include <string>

namespace sft::apps {

struct DiffOptions {
  std::string before, after;  ///< a checkpoint, the output folder of a run, a model folder or an adapter's folder
  bool optimizer = false;     ///< also entries that are no weights, of two checkpoints
  bool json = false;
};

/// Prints the keys that differ, how the runs are related, the tensors that differ or are in one alone, and a summary.
/// Returns whether all tensors are the same: names, shapes, dtypes and numbers. A few rows of a tensor are in memory at
/// a time. A data Error for a path that is none of these, and for two that have no tensor in common.
[[nodiscard]] bool print_diff(const DiffOptions& options);

}  // namespace sft::apps
