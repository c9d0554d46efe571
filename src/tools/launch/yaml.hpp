// SPDX-License-Identifier: Apache-2.0
#pragma once
// YAML, of which JSON is a part, as names with texts.

#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>
#include <string>

#include "sft/launch/foreign_file.hpp"

namespace sft::launch {

/// The map at the top of a file. Throws a configuration Error where there is none, with the line.
[[nodiscard]] YAML::Node load_map(const std::string& path);

/// "in FILE:LINE" of a node; "on the command line" where there is no path.
[[nodiscard]] std::string place_of(const YAML::Node& node, const std::string& path);

/// A node as JSON. Texts without quotes that JSON has as numbers or truth values become these.
[[nodiscard]] nlohmann::ordered_json json_of(const YAML::Node& node);

/// The value as a setting writes it: "none" for null, items of a list behind one another, JSON for what is nested
/// deeper.
[[nodiscard]] std::string text_of(const YAML::Node& node);

/// Settings of their own, and the file that they stand in; empty: the command line.
struct Block {
  YAML::Node map;
  std::string path;
};

/// The map that a text holds as JSON, or the map of the JSON or YAML file that it names, from the
/// folder of `owner` or the working folder. No map where it is neither. Throws as load_map().
[[nodiscard]] Block block_of(const std::string& text, const std::string& owner);

/// A finished message of what a file says and cannot be obeyed.
[[nodiscard]] std::string refusal(const std::string& problem, const std::string& why, const std::string& what_to_do);

/// refusal() of what should be a block and is none.
[[nodiscard]] std::string refusal_of_block(const std::string& name, const std::string& value, const std::string& place);

/// Adds a setting.
void add(ForeignFile& file, const std::string& name, const std::string& value, const std::string& place);

/// Adds what a file of DeepSpeed, or a block of it, says.
void add_deepspeed(const YAML::Node& map, const std::string& path, ForeignFile& file);
/// The same of a file named in `owner`, from its folder or from the working folder.
void add_deepspeed_file(const std::string& named, const std::string& owner, ForeignFile& file);

/// Adds what a file of Accelerate or TRL says.
void add_flat(const YAML::Node& map, const std::string& path, ForeignFile& file);

/// Adds what a file of Axolotl says.
void add_axolotl(const YAML::Node& map, const std::string& path, ForeignFile& file);

/// Adds what a file of `llamafactory-cli train` says, of either of its engines.
void add_llama_factory(const YAML::Node& map, const std::string& path, ForeignFile& file);

}  // namespace sft::launch
