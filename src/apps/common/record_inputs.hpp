// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files that the words of --input name.

#include <cstddef>
#include <string>
#include <vector>

#include "sft/launch/datasets.hpp"

namespace sft::apps {

/// Inputs as the user wrote them. `split` and `config` choose in each folder, which is a data set.
struct RecordWords {
  std::vector<std::string> inputs;  ///< paths, globs, and "-" for standard input
  std::string split, config;        ///< empty: the split `train`, the config that a card takes for the default
};

struct RecordInputs {
  std::vector<std::string> files;         ///< also folders that save_to_disk left
  std::vector<std::size_t> groups;        ///< of each file, by which of the words it is read
  std::vector<launch::LeftOut> left_out;  ///< of the folders
};

/// Globs are expanded, and folders sorted as launch::find_files does it. Throws a data Error for what names nothing,
/// and a configuration Error for a split or config where no folder is given.
[[nodiscard]] RecordInputs find_records(const RecordWords& words);

}  // namespace sft::apps
