// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the names of data sets to the files of their records.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sft::launch {

/// A data set as TRL's commands name it.
struct Dataset {
  std::string name = {};        ///< a file, a folder, org/name in the hub cache, or empty with `data_files`
  std::string config = {};      ///< a part of it; empty: all
  std::string split = "train";  ///< what is trained on
  std::string slice = {};       ///< the part of it, A:B as `sft-prepare --input_slice` takes it; empty: all
  std::vector<std::string> data_files = {};  ///< files of it, or by themselves; globs are expanded
};

/// Takes the slice of a split that is written train[:20%] into its own member.
void take_slice(Dataset& dataset);

/// Whether files of this name hold records that sft-prepare reads.
[[nodiscard]] bool is_record_file(const std::string& path);

/// The files of a split, in the order of their names. In a folder they are known as the hub knows them: by the word
/// `train`, `test`, `validation` (or its like) in the name of a file or of a folder above it; what has none of these is
/// for training. Files that are named by themselves are `train`, or what their names say. Throws a data Error where
/// there are none, unless `is_optional`, and where a file that is named is another split.
[[nodiscard]] std::vector<std::string> find_files(const Dataset& dataset, bool is_optional = false);

/// What sft-prepare reads: files, and of each the part that is taken.
struct InputFiles {
  std::vector<std::string> files;
  std::vector<std::string> slices = {};  ///< A:B of each file; empty: all of all
};

/// The files of all data sets (find_files), of each data set at most its first `max_samples` records. Throws a
/// configuration Error where a part is asked for of a data set of several files, or two parts of one.
[[nodiscard]] InputFiles find_inputs(const std::vector<Dataset>& datasets, std::optional<std::int64_t> max_samples,
                                     bool is_optional = false);

}  // namespace sft::launch
