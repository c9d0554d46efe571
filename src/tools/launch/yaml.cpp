// SPDX-License-Identifier: Apache-2.0
#include "launch/yaml.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::launch {

namespace {

bool is_plain(const YAML::Node& node) { return node.Tag() != "!"; }

/// The text of a scalar. A whole number in YAML 1.1's octal digits, 0644, becomes decimal: it is read as decimal
/// elsewhere.
std::string scalar_of(const YAML::Node& node) {
  std::string text = node.Scalar();
  const bool is_octal = is_plain(node) && text.size() > 1 && text.front() == '0' &&
                        text.find_first_not_of("01234567_") == std::string::npos;
  if (!is_octal) return text;
  try {
    std::int64_t number = 0;
    config::read("0o" + text.substr(1), number);
    return fmt::format("{}", number);
  } catch (const std::invalid_argument&) {
    return text;
  }
}

/// A plain scalar as YAML 1.1 reads it: a number, a truth, or the text.
nlohmann::ordered_json plain_json(const std::string& text) {
  nlohmann::ordered_json parsed = nlohmann::ordered_json::parse(text, nullptr, false);
  if (parsed.is_number() || parsed.is_boolean()) return parsed;
  const bool is_word = text.size() > 1 && std::isalpha(static_cast<unsigned char>(text.front())) != 0;
  if (const std::optional<bool> truth = config::truth_of(text); truth && is_word) return *truth;
  if (is_word || text.empty()) return text;
  try {
    std::int64_t number = 0;
    config::read(text, number);
    return number;
  } catch (const std::invalid_argument&) {
    return text;
  }
}

/// The names of a map. Refuses one that stands twice, of which readers of YAML take one in silence.
std::set<std::string> names_of(const YAML::Node& map, const std::string& path) {
  std::set<std::string> names;
  for (const auto& entry : map) {
    if (names.insert(entry.first.Scalar()).second) continue;
    throw_config_error(
        fmt::format("`{}` stands twice, the second time {}", entry.first.Scalar(), place_of(entry.first, path)),
        "one of the two would be ignored", "leave one out");
  }
  return names;
}

/// Puts what `<<: *ANCHOR` names into the maps that have it, and where they have not its names themselves, as YAML 1.1
/// merges.
void merge_anchors(YAML::Node node, const std::string& path) {
  if (node.IsSequence()) {
    for (const YAML::Node& item : node) merge_anchors(item, path);
  }
  if (!node.IsMap()) return;
  std::set<std::string> names = names_of(node, path);
  for (const auto& entry : node) merge_anchors(entry.second, path);
  if (!names.contains("<<")) return;
  const YAML::Node merged = node["<<"];
  const std::vector<YAML::Node> sources =
      merged.IsSequence() ? std::vector<YAML::Node>(merged.begin(), merged.end()) : std::vector{merged};
  node.remove("<<");
  for (const YAML::Node& source : sources) {
    if (!source.IsMap()) {
      throw_config_error(fmt::format("`<<` {} names no map", place_of(source, path)), "it merges the names of maps",
                         "write `<<: *NAME` of a map that `&NAME` marks");
    }
    for (const auto& entry : source) {
      if (names.insert(entry.first.Scalar()).second) node.force_insert(entry.first, entry.second);
    }
  }
}

}  // namespace

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
  return is_plain(node) ? plain_json(scalar_of(node)) : nlohmann::ordered_json(node.Scalar());
}

YAML::Node load_map(const std::string& path) {
  std::string text = io::read_file(path);
  if (path.ends_with(".json")) std::ranges::replace(text, '\t', ' ');  // YAML knows no tabs before a key
  YAML::Node node;
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    const auto is_null = [](const YAML::Node& document) { return document.IsNull(); };
    if (std::ranges::count_if(documents, std::not_fn(is_null)) > 1) {
      throw_config_error(fmt::format("{} has several documents", path),
                         "`---` begins another, and one would be ignored", "make one of them, or a file of each");
    }
    const auto found = std::ranges::find_if_not(documents, is_null);
    if (found != documents.end()) node = *found;
  } catch (const YAML::Exception& error) {
    throw_config_error(fmt::format("cannot read {}:{}", path, error.mark.line + 1), error.msg,
                       "correct the line; the file is read as YAML");
  }
  if (!node.IsMap()) {
    throw_config_error(fmt::format("{} says nothing", path), "it is no map of names and values",
                       "give a file of Accelerate, DeepSpeed, TRL, Axolotl or LLaMA-Factory");
  }
  merge_anchors(node, path);
  return node;
}

std::string place_of(const YAML::Node& node, const std::string& path) {
  if (path.empty()) return "on the command line";
  return fmt::format("in {}:{}", path, node.Mark().line + 1);
}

std::string text_of(const YAML::Node& node) {
  if (node.IsNull()) return "none";
  if (node.IsScalar()) return scalar_of(node);
  if (node.IsSequence() &&
      std::all_of(node.begin(), node.end(), [](const YAML::Node& item) { return item.IsScalar(); })) {
    std::vector<std::string> items;
    for (const YAML::Node& item : node) items.push_back(scalar_of(item));
    return fmt::format("{}", fmt::join(items, " "));
  }
  return json_of(node).dump();
}

Block block_of(const std::string& text, const std::string& owner) {
  if (text.find('{') != std::string::npos) {
    try {
      return {YAML::Load(text), owner};
    } catch (const YAML::Exception&) {
      return {};
    }
  }
  if (!is_foreign_file(text)) return {};
  std::error_code ignored;
  const std::filesystem::path beside = std::filesystem::path(owner).parent_path() / text;
  const std::string path = std::filesystem::exists(beside, ignored) ? beside.string() : text;
  return {load_map(path), path};
}

std::string refusal(const std::string& problem, const std::string& why, const std::string& what_to_do) {
  return Error(ExitStatus::configuration, problem, why, what_to_do).what();
}

std::string refusal_of_block(const std::string& name, const std::string& value, const std::string& place) {
  return refusal(fmt::format("`{} = {}` {} cannot be read", name, value, place),
                 "it is neither a JSON object nor the name of a file that ends with .json, .yaml or .yml",
                 fmt::format(R"(write {} = FILE.json, or {{"NAME": VALUE}})", name));
}

void add(ForeignFile& file, const std::string& name, const std::string& value, const std::string& place) {
  file.settings.push_back({{name, value}, place});
}

}  // namespace sft::launch
