// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which split a file of a data set belongs to, by its name and those of the folders above it.

#include <string>
#include <vector>

#include "sft/launch/datasets.hpp"

namespace sft::launch {

/// Sorts paths, which are relative to the folder of the data set and in order, into splits as `datasets` 5 does it. The
/// first of these rules that fits any path counts for all: names data/SPLIT-00000-of-00001.EXTENSION; folders whose
/// names hold a word for a split; files whose names do; all are `train`. A path may be in no split, and in several. A
/// split has its paths in the order of the words, and of their places in a name.
[[nodiscard]] std::vector<FilesOfSplit> sort_by_names(const std::vector<std::string>& paths);

/// Whether the name of the file holds a word for the split.
[[nodiscard]] bool names_split(const std::string& file, const std::string& split);

}  // namespace sft::launch
