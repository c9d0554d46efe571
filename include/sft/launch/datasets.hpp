// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the names of data sets to the files of their records, as the library `datasets` finds them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sft::launch {

/// The files of one split, or patterns that name them.
struct FilesOfSplit {
  std::string split;
  std::vector<std::string> files;
};

/// A data set as TRL's commands name it.
struct Dataset {
  std::string name = {};                  ///< a file, a folder, org/name in the hub cache, or empty with `data_files`
  std::string config = {};                ///< a part of it; empty: the one that its card takes for the default
  std::string split = "train";            ///< what is read
  std::string slice = {};                 ///< the part of it, A:B as `sft-prepare --input_slice` takes it; empty: all
  std::string data_dir = {};              ///< a folder in it that is the data set; empty: all of it
  std::vector<std::string> columns = {};  ///< fields of its records that are read; empty: all
  std::optional<double> fraction = {};    ///< share of the records that it gives beside others; none: all of them
  std::vector<FilesOfSplit> data_files = {};  ///< files of it, or by themselves, by split; globs are expanded
};

/// The options by which a user of this program chooses, for messages.
struct ChoiceOptions {
  const char* split = "--dataset_train_split";
  const char* config = "--dataset_config";
};

/// Takes the slice of a split that is written train[:20%] into its own member.
void take_slice(Dataset& dataset);

/// A file that looks like data and is not read.
struct LeftOut {
  std::string file, why;
};

struct FoundFiles {
  std::vector<std::string> files;  ///< in the order of reading
  std::vector<LeftOut> left_out;   ///< of the same folder
};

/// The files of a split. A folder is sorted as `datasets` 5 does it: by the `configs` of its card (README.md) where it
/// has some, else by the words `train`, `test`, `validation` and their like in the names of folders or files; where no
/// name has one, all are `train`. Names that begin with `.` or `__` are left out, and of several formats all but the
/// most common one. A folder that save_to_disk left is one input as a whole. Files that are named by themselves are
/// `train`, or what their names say. Throws a data Error where there are none, unless `is_optional`, where a choice is
/// open, and where a file that is named is another split; a configuration Error for a slice of a split.
[[nodiscard]] FoundFiles find_files(const Dataset& dataset, const ChoiceOptions& options = {},
                                    bool is_optional = false);

/// "2 files: a.jsonl, b.jsonl", the first dozen of them.
[[nodiscard]] std::string list_of(const std::vector<std::string>& files);
/// "2 files: a.csv (CSV), test.jsonl (split test)", the first dozen of them.
[[nodiscard]] std::string list_of(const std::vector<LeftOut>& left_out);

/// The files that sft-prepare reads, and the part that is taken of each.
struct InputFiles {
  std::vector<std::string> files;
  std::vector<std::string> slices = {};  ///< A:B of each file; empty: all of all
  std::vector<double> weights = {};      ///< shares of the files (--input_weight); empty: all of all
  std::vector<LeftOut> left_out = {};    ///< of the same folders
};

/// The files of all data sets (find_files), of each data set at most its first `max_samples` records. Throws a
/// configuration Error where a part is asked for of a data set of several files, two parts of one, or shares of some of
/// them alone.
[[nodiscard]] InputFiles find_inputs(const std::vector<Dataset>& datasets, std::optional<std::int64_t> max_samples,
                                     const ChoiceOptions& options = {}, bool is_optional = false);

}  // namespace sft::launch
