// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parts of the reader of LLaMA-Factory's files.

#include <string>
#include <vector>

#include "launch/key_table.hpp"

namespace sft::launch {

/// Adds the data sets `names`, by dataset_info.json of `folder` (from the working folder), under the setting `setting`;
/// what they ask of sft-prepare goes to `options`. Without such a file, or without an entry in it, a refusal of data.
void add_named_datasets(const Entry& names, const std::string& folder, const char* setting, SharedOptions& options,
                        ForeignFile& file);

/// Adds a data set of the newer engine: a file that lists some, one of records, or a name in the hub.
void add_listed_datasets(const Entry& named, const char* setting, SharedOptions& options, ForeignFile& file);

/// Adds what a file of the newer engine says (`llamafactory-cli` with USE_V1).
void add_newer_engine(const YAML::Node& map, const std::string& path, ForeignFile& file);

}  // namespace sft::launch
