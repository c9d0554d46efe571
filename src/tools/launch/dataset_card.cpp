// SPDX-License-Identifier: Apache-2.0
#include "launch/dataset_card.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "launch/yaml.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::launch {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

/// The lines between `---` at the head of a text, the first of them kept empty so that lines keep their numbers.
std::string head_of(const std::string& text) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  std::istringstream lines(text.substr(text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0));
  std::string line, head;
  const auto is_fence = [&] { return line == "---" || line == "---\r"; };
  while (std::getline(lines, line) && line.find_first_not_of(" \t\r") == std::string::npos) head += "\n";
  if (!is_fence()) return {};
  head += "\n";
  while (std::getline(lines, line)) {
    if (is_fence()) return head;
    head += line + "\n";
  }
  return {};
}

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw_data_error(fmt::format("cannot read the card {}", file), why,
                   "correct it, or name the files of records themselves");
}

/// A text as a list of one; nothing where it is neither a text nor a list of texts.
std::optional<std::vector<std::string>> texts_of(const Json& value) {
  const auto text = [](const Json& item) { return item.is_string() ? item.get<std::string>() : item.dump(); };
  if (value.is_string() || value.is_number()) return std::vector<std::string>{text(value)};
  const bool is_list = value.is_array() && std::ranges::all_of(value, [](const Json& item) {
                         return item.is_string() || item.is_number();
                       });
  if (!is_list) return std::nullopt;
  std::vector<std::string> texts;
  for (const Json& item : value) texts.push_back(text(item));
  return texts;
}

CardConfig config_of(const Json& entry, const std::string& file) {
  CardConfig config;
  const auto name = entry.is_object() ? entry.find("config_name") : entry.end();
  if (name == entry.end() || !texts_of(*name)) refuse(file, "one of its configs has no config_name");
  config.name = texts_of(*name)->front();
  for (const auto& [key, value] : entry.items()) {
    if (key == "default") config.is_default = value == true;
    if (key == "data_dir" && value.is_string()) config.data_dir = value.get<std::string>();
    if (key != "data_files" || value.is_null()) continue;
    const auto files = value.is_object() ? std::nullopt : files_by_split(value);
    if (!files) {
      refuse(file, fmt::format("data_files of the config {} is neither a path, nor a list of paths, nor one of "
                               "`split` and `path`",
                               config.name));
    }
    config.data_files = *files;
  }
  return config;
}

/// The `configs` of a file, or of its head.
std::vector<CardConfig> configs_of(const std::string& file, bool has_head) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return {};
  const std::string text = io::read_file(file);
  const std::string head = has_head ? head_of(text) : text;
  if (head.find("configs") == std::string::npos) return {};
  Json card;
  try {
    card = json_of(YAML::Load(head));
  } catch (const YAML::Exception& error) {
    refuse(file, fmt::format("line {}: {}", error.mark.line + 1, error.msg));
  }
  const auto list = card.is_object() ? card.find("configs") : card.end();
  if (list == card.end() || list->is_null()) return {};
  if (!list->is_array()) refuse(file, "its configs are no list");
  std::vector<CardConfig> configs;
  for (const Json& entry : *list) configs.push_back(config_of(entry, file));
  return configs;
}

}  // namespace

std::vector<CardConfig> read_card(const std::string& folder) {
  std::vector<CardConfig> configs = configs_of((fs::path(folder) / ".huggingface.yaml").string(), /*has_head=*/false);
  return configs.empty() ? configs_of((fs::path(folder) / "README.md").string(), /*has_head=*/true) : configs;
}

std::optional<std::vector<FilesOfSplit>> files_by_split(const Json& value) {
  if (const auto texts = texts_of(value)) return std::vector<FilesOfSplit>{{"train", *texts}};
  std::vector<FilesOfSplit> splits;
  const auto add = [&](const std::string& split, const Json& paths) {
    const auto texts = texts_of(paths);
    const bool is_new = std::ranges::find(splits, split, &FilesOfSplit::split) == splits.end();
    if (texts) splits.push_back({split, *texts});
    return texts && is_new;
  };
  if (value.is_object()) {
    for (const auto& [split, paths] : value.items()) {
      if (!add(split, paths)) return std::nullopt;
    }
    return splits;
  }
  if (!value.is_array()) return std::nullopt;
  for (const Json& entry : value) {
    const bool is_known = entry.is_object() && entry.size() == 2 && entry.contains("split") && entry.contains("path");
    const auto split = is_known ? texts_of(entry["split"]) : std::nullopt;
    if (!split || split->size() != 1 || !add(split->front(), entry["path"])) return std::nullopt;
  }
  return splits;
}

}  // namespace sft::launch
