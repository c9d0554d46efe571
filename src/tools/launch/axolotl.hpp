// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parts of the reader of Axolotl's files.

#include <string>

#include "launch/key_table.hpp"

namespace sft::launch {

/// Names that need no more than another name here, or none.
[[nodiscard]] const KeyTable& axolotl_table();

/// Reasons that several names are refused for.
inline constexpr const char* no_other_adapters = "adapters are those of LoRA on weights of 16 bits or of 4 bits (nf4)";
inline constexpr const char* only_next_token = "sft trains on the next token of records, and on nothing else";
inline constexpr const char* all_or_adapters = "all weights are trained, or adapters and whole modules beside them";

/// Linear layers of a block.
struct NamedModules {
  std::string names;        ///< separated by blanks
  std::string passed_over;  ///< those that only other models have, separated by commas
};

/// The layers that a list of their names means, or a regular expression of their paths, as PEFT takes both. PEFT passes
/// over names that a model has not where it has others of them.
[[nodiscard]] NamedModules modules_of(const std::string& value);

/// Whether the expressions, matched from the start of names, leave no part of a language model frozen.
[[nodiscard]] bool is_whole_model(const YAML::Node& expressions);

/// The prompt formats that Axolotl writes around a record, as --prompt_template of sft-prepare; "" for a type that is
/// none of them: alpaca, alpaca:chat, alpaca:chatml, alpaca:phi, and the same without a preamble.
[[nodiscard]] std::string prompt_template_of_type(const std::string& type);

/// The template for a format that a file describes itself (`type` with its fields). A refusal goes to `why` where it
/// cannot be written; `output` is the field of the completion.
[[nodiscard]] std::string prompt_template_of_format(const YAML::Node& type, std::string& output, std::string& why);

/// Adds `datasets` and `test_datasets` of the map, and the options of sft-prepare that they ask for.
void add_axolotl_data(const YAML::Node& map, const std::string& path, ForeignFile& file);

}  // namespace sft::launch
