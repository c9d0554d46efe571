// SPDX-License-Identifier: Apache-2.0
#include "record_inputs.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/launch/data_folder.hpp"

namespace sft::apps {

namespace fs = std::filesystem;

namespace {

constexpr launch::ChoiceOptions options{.split = "--split", .config = "--dataset_config"};

std::vector<std::string> paths_of(const std::string& word) {
  if (word == "-") return {word};
  std::vector<std::string> paths = io::expand_glob(word);
  if (paths.empty()) {
    throw_data_error(fmt::format("no input at '{}'", word), "no such file, or no file matches the glob",
                     "name a JSON-lines file; postprocess/fetch.py downloads a data set by its name");
  }
  return paths;
}

}  // namespace

RecordInputs find_records(const RecordWords& words) {
  launch::require_whole_split(words.split, options);
  RecordInputs found;
  bool has_folder = false;
  for (std::size_t i = 0; i < words.inputs.size(); ++i) {
    for (const std::string& path : paths_of(words.inputs[i])) {
      launch::FoundFiles files{.files = {path}, .left_out = {}};
      if (std::error_code ignored; fs::is_directory(path, ignored)) {
        has_folder = true;
        const launch::Dataset dataset{
            .name = path, .config = words.config, .split = words.split.empty() ? "train" : words.split};
        files = launch::files_of_folder(path, dataset, options, /*is_optional=*/false);
      }
      found.groups.insert(found.groups.end(), files.files.size(), i);
      std::ranges::move(files.files, std::back_inserter(found.files));
      std::ranges::move(files.left_out, std::back_inserter(found.left_out));
    }
  }
  const std::string choice = !words.split.empty() ? "--split" : words.config.empty() ? "" : "--dataset_config";
  if (!has_folder && !choice.empty()) {
    throw_config_error(fmt::format("{} is given, and no --input is a folder", choice),
                       "a file that is named by itself is read as a whole", "leave it out, or give the folder");
  }
  return found;
}

}  // namespace sft::apps
