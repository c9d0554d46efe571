// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parts of the reader of Axolotl's files.

#include <string>

#include "launch/key_table.hpp"

namespace sft::launch {

/// The prompt formats that Axolotl writes around a record, as --prompt_template of sft-prepare; "" for a type that is
/// none of them: alpaca, alpaca:chat, alpaca:chatml, alpaca:phi, and the same without a preamble.
[[nodiscard]] std::string prompt_template_of_type(const std::string& type);

/// The template for a format that a file describes itself (`type` with its fields). A refusal goes to `why` where it
/// cannot be written; `output` is the field of the completion.
[[nodiscard]] std::string prompt_template_of_format(const YAML::Node& type, std::string& output, std::string& why);

/// Adds `datasets` and `test_datasets` of the map, and the options of sft-prepare that they ask for.
void add_axolotl_data(const YAML::Node& map, const std::string& path, ForeignFile& file);

}  // namespace sft::launch
