// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files of a data set by its card (README.md).

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sft/launch/datasets.hpp"

namespace sft::launch {

/// One of `configs`, a part of a data set that is loaded by itself.
struct CardConfig {
  std::string name;
  std::string data_dir;                    ///< in the folder of the card; empty: that folder
  bool is_default = false;                 ///< is said to be
  std::vector<FilesOfSplit> data_files{};  ///< patterns in data_dir; empty: names say which split a file is
};

/// The `configs` at the head of README.md, or of .huggingface.yaml, in the folder. Throws a data Error with the file,
/// and the line where YAML has one, for what cannot be read or is none.
[[nodiscard]] std::vector<CardConfig> read_card(const std::string& folder);

/// `data_files` by split: one text, a list of texts, a list of maps with `split` and `path`, or a map of splits. A text
/// or a list is `train`. Nothing where it is none of these.
[[nodiscard]] std::optional<std::vector<FilesOfSplit>> files_by_split(const nlohmann::ordered_json& value);

}  // namespace sft::launch
