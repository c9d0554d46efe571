// SPDX-License-Identifier: Apache-2.0
#include "launch/named_datasets.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "launch/dataset_card.hpp"
#include "launch/request_parts.hpp"
#include "launch/yaml.hpp"
#include "sft/config/values.hpp"

namespace sft::launch {

namespace {

using config::PlacedOption;

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  config::read(text, words);
  return words;
}

/// Whether a text that is no JSON was meant to be: an object or a list that lacks a quote or a bracket.
bool is_broken_json(const std::string& text) {
  const bool is_object = text.starts_with('{') && text.find(':') != std::string::npos;
  const bool is_list = text.starts_with('[') && (text.ends_with(']') || text.find_first_of("\"'") != std::string::npos);
  return is_object || is_list;
}

/// Files by split of a text that may be JSON: a list, or a map of splits; else of words. Nothing where JSON is neither.
std::optional<std::vector<FilesOfSplit>> data_files_of(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) return std::vector<FilesOfSplit>{{"train", {text}}};
  if (const auto value = nlohmann::ordered_json::parse(text, nullptr, false); value.is_structured()) {
    auto files = files_by_split(value);
    const bool has_all = files && !files->empty() &&
                         std::ranges::none_of(*files, [](const FilesOfSplit& split) { return split.files.empty(); });
    return has_all ? files : std::nullopt;
  }
  if (is_broken_json(text)) return std::nullopt;
  const std::vector<std::string> words = words_of(text);
  return words.empty() ? std::vector<FilesOfSplit>{} : std::vector<FilesOfSplit>{{"train", words}};
}

std::string refusal_of_files(const std::string& name, const std::string& place) {
  return refusal(fmt::format("`{}` {} cannot be read", name, place),
                 "files are a text, a list of texts, or a map from splits to these",
                 R"(write FILE, or {"train": FILE, "test": FILE})");
}

/// One data set of a YAML file's list.
Dataset dataset_of(const nlohmann::ordered_json& entry, const PlacedOption& setting,
                   std::vector<std::string>& refused) {
  Dataset dataset;
  for (const auto& [name, value] : entry.items()) {
    if (value.is_null()) continue;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (name == "path") {
      dataset.name = text;
    } else if (name == "name") {
      dataset.config = text;
    } else if (name == "split") {
      dataset.split = text;
      take_slice(dataset);
    } else if (name == "data_dir") {
      dataset.data_dir = text;
    } else if (name == "fraction" && value.is_number() && value.get<double>() > 0) {
      dataset.fraction = value.get<double>();
    } else if (name == "columns" && value.is_array()) {
      for (const auto& column : value) {
        if (column.is_string()) dataset.columns.push_back(column.get<std::string>());
      }
    } else if (name == "data_files") {
      const auto files = value.is_structured() ? files_by_split(value) : data_files_of(text);
      if (files) dataset.data_files = *files;
      if (!files) refused.push_back(refusal_of_files("data_files", setting.place));
    } else if (name != "type" && value != false) {
      refused.push_back(
          refusal(fmt::format("sft does not take `{}: {}` of {} {}", name, text, setting.option.name, setting.place),
                  "of a data set its path, name, split, columns, fraction, data_dir and data_files are known",
                  name == "weight" ? "write split: train[:10%] for the first tenth of it" : "leave it out"));
    }
  }
  return dataset;
}

}  // namespace

std::vector<Dataset> datasets_of(const PlacedOption& setting, std::vector<std::string>& refused) {
  std::vector<Dataset> datasets;
  const auto list = nlohmann::ordered_json::parse(value_of(setting), nullptr, false);
  const bool is_list =
      list.is_array() && std::ranges::all_of(list, [](const auto& entry) { return entry.is_object(); });
  if (!is_list) {
    refused.push_back(refusal(fmt::format("`{}` {} cannot be read", setting.option.name, setting.place),
                              "it is a list of data sets, each with its path", "write `- path: NAME`"));
    return datasets;
  }
  for (const auto& entry : list) datasets.push_back(dataset_of(entry, setting, refused));
  return datasets;
}

void read_data_files(const PlacedOption& setting, std::vector<FilesOfSplit>& files, std::vector<std::string>& refused) {
  if (const auto read = data_files_of(value_of(setting))) {
    files = *read;
  } else {
    refused.push_back(refusal_of_files(setting.option.name, setting.place));
  }
}

}  // namespace sft::launch
