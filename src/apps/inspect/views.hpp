// SPDX-License-Identifier: Apache-2.0
#pragma once
// What sft-inspect prints of packed data, of two folders of weights (--diff), and of a run (status). Each view has a
// source file of its own.

#include <optional>
#include <string>
#include <vector>

namespace sft::apps {

/// The packed shard files that `path` means, as a list for rows::PackedDataset: itself when it is a shard file or a
/// glob of them, those of a folder that sft-prepare wrote. None: it is something else.
[[nodiscard]] std::optional<std::vector<std::string>> packed_files_at(const std::string& path);

/// Prints a summary of the data set. `verify`: reads every row first, and refuses a data set whose rows, counts or
/// content hashes differ from what its files say.
void inspect_data(const std::vector<std::string>& files, bool verify, bool json);

struct DiffOptions {
  std::string before, after;  ///< a checkpoint, the output folder of a run, a model folder or an adapter's folder
  bool optimizer = false;     ///< also entries that are no weights, of two checkpoints
  bool json = false;
};

/// Prints the keys that differ, how the runs are related, the tensors that differ or are in one alone, and a summary.
/// Returns whether all tensors are the same: names, shapes, dtypes and numbers. A few rows of a tensor are in memory at
/// a time. A data Error for a path that is none of these, and for two that have no tensor in common.
[[nodiscard]] bool print_diff(const DiffOptions& options);

/// Prints whether the run is alive, what it is doing, how far it is, how fast, what it saved last and what its time
/// went to. Reads alone, and takes no lock. A data Error where there is no such folder.
void print_status(const std::string& output_dir, bool json);

}  // namespace sft::apps
