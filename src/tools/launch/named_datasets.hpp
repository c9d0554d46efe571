// SPDX-License-Identifier: Apache-2.0
#pragma once
// Data sets as settings name them.

#include <string>
#include <vector>

#include "sft/config/parse.hpp"
#include "sft/launch/datasets.hpp"

namespace sft::launch {

/// The list of a file's `datasets`, which is JSON: maps with path, name, split, data_dir and data_files. Messages on
/// what cannot be obeyed go to `refused`.
[[nodiscard]] std::vector<Dataset> datasets_of(const config::PlacedOption& setting, std::vector<std::string>& refused);

/// The value of data_files: names with blanks or commas between them, or JSON, a list or a map of splits.
void read_data_files(const config::PlacedOption& setting, std::vector<FilesOfSplit>& files,
                     std::vector<std::string>& refused);

}  // namespace sft::launch
