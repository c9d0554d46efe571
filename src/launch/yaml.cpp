// SPDX-License-Identifier: Apache-2.0
#include "launch/yaml.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::launch {

YAML::Node load_map(const std::string& path) {
  std::string text = io::read_file(path);
  if (path.ends_with(".json")) std::ranges::replace(text, '\t', ' ');  // YAML knows no tabs before a key
  YAML::Node node;
  try {
    node = YAML::Load(text);
  } catch (const YAML::Exception& error) {
    throw_config_error(fmt::format("cannot read {}:{}", path, error.mark.line + 1), error.msg,
                       "correct the line; the file is read as YAML");
  }
  if (!node.IsMap()) {
    throw_config_error(fmt::format("{} says nothing", path), "it is no map of names and values",
                       "give a file of Accelerate, DeepSpeed, TRL, Axolotl or LLaMA-Factory");
  }
  return node;
}

std::string place_of(const YAML::Node& node, const std::string& path) {
  return fmt::format("in {}:{}", path, node.Mark().line + 1);
}

nlohmann::ordered_json json_of(const YAML::Node& node) {
  if (node.IsSequence()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const YAML::Node& item : node) list.push_back(json_of(item));
    return list;
  }
  if (node.IsMap()) {
    nlohmann::ordered_json map = nlohmann::ordered_json::object();
    for (const auto& entry : node) map[entry.first.as<std::string>()] = json_of(entry.second);
    return map;
  }
  if (!node.IsScalar()) return nullptr;
  const std::string text = node.Scalar();
  const bool is_quoted = node.Tag() == "!";
  const nlohmann::ordered_json parsed =
      is_quoted ? nlohmann::ordered_json() : nlohmann::ordered_json::parse(text, nullptr, false);
  return parsed.is_number() || parsed.is_boolean() ? parsed : nlohmann::ordered_json(text);
}

std::string text_of(const YAML::Node& node) {
  if (node.IsNull()) return "none";
  if (node.IsScalar()) return node.Scalar();
  if (node.IsSequence() &&
      std::all_of(node.begin(), node.end(), [](const YAML::Node& item) { return item.IsScalar(); })) {
    std::vector<std::string> items;
    for (const YAML::Node& item : node) items.push_back(item.Scalar());
    return fmt::format("{}", fmt::join(items, " "));
  }
  return json_of(node).dump();
}

bool is_block(const YAML::Node& node) { return node.IsMap() || (node.IsScalar() && is_foreign_file(node.Scalar())); }

std::string refusal(const std::string& problem, const std::string& why, const std::string& what_to_do) {
  return Error(ExitStatus::configuration, problem, why, what_to_do).what();
}

void add(ForeignFile& file, const std::string& name, const std::string& value, const std::string& place) {
  file.settings.push_back({{name, value}, place});
}

}  // namespace sft::launch
