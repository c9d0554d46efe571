// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/datasets.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "sft/core/error.hpp"
#include "sft/hub/folder.hpp"
#include "sft/io/files.hpp"

namespace sft::launch {

namespace fs = std::filesystem;

namespace {

/// Words of file names that mean a split, the first being its name.
const std::array<std::vector<std::string>, 3> known_splits{
    {{"train", "training"}, {"test", "testing", "eval", "evaluation"}, {"validation", "valid", "val", "dev"}}};

std::vector<std::string> words_of_split(const std::string& split) {
  for (const auto& words : known_splits) {
    if (words.front() == split) return words;
  }
  return {split};
}

/// Whether one of the words stands in the text, with no letter or digit beside it.
bool has_word(const std::string& text, const std::vector<std::string>& words) {
  const auto is_inner = [&](std::size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
  };
  return std::ranges::any_of(words, [&](const std::string& word) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      if ((at == 0 || !is_inner(at - 1)) && !is_inner(at + word.size())) return true;
    }
    return false;
  });
}

bool has_any_split(const std::string& text) {
  return std::ranges::any_of(known_splits, [&](const auto& words) { return has_word(text, words); });
}

/// The files below the folder, as paths from it.
std::vector<std::string> files_below(const fs::path& folder, const std::string& config) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, ignored)) {
    const std::string path = entry.path().lexically_relative(folder).string();  // in the hub cache it is a link
    const bool is_part = config.empty() || has_word(path, {config});
    if (entry.is_regular_file(ignored) && is_record_file(path) && is_part) found.push_back(path);
  }
  std::ranges::sort(found);
  return found;
}

/// Whether it is a data set that `save_to_disk` of `datasets` left: one, or a folder for each split.
bool is_saved(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "state.json", ignored);
}
bool holds_saved_splits(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "dataset_dict.json", ignored);
}

/// A saved data set is one input as a whole.
std::vector<std::string> saved_split(const fs::path& folder, const std::string& split) {
  if (is_saved(folder))
    return split == "train" ? std::vector<std::string>{folder.string()} : std::vector<std::string>{};
  if (is_saved(folder / split)) return {(folder / split).string()};
  return {};
}

std::vector<std::string> files_of_split(const fs::path& folder, const Dataset& dataset) {
  if (is_saved(folder) || holds_saved_splits(folder)) return saved_split(folder, dataset.split);
  const std::vector<std::string> all = files_below(folder, dataset.config);
  const std::vector<std::string> words = words_of_split(dataset.split);
  std::vector<std::string> found;
  const auto take = [&](const auto& belongs) {
    for (const std::string& path : all) {
      if (belongs(path)) found.push_back((folder / path).string());
    }
  };
  take([&](const std::string& path) { return has_word(path, words); });
  if (found.empty() && dataset.split == "train") take([](const std::string& path) { return !has_any_split(path); });
  return found;
}

/// Throws a data Error unless a file that is named by itself is the split that is asked for: `train`, as in the library
/// `datasets`, or what a word of its name says.
void require_split(const std::string& file, const std::string& split) {
  if (split == "train" || has_word(fs::path(file).filename().string(), words_of_split(split))) return;
  throw_data_error(fmt::format("there is no split `{}` in {}", split, file),
                   "a file that is named by itself is the split `train`, with all its records",
                   "leave the split out; for a part of the records make a file of them");
}

/// Files that are named, below the folder where it is not empty.
std::vector<std::string> named_files(const fs::path& folder, const Dataset& dataset) {
  std::vector<std::string> found;
  for (const std::string& name : dataset.data_files) {
    const std::string pattern = (folder / name).string();
    const std::vector<std::string> files = io::expand_glob(pattern);
    if (files.empty()) {
      throw_data_error(fmt::format("cannot find the file {}", pattern), "there is none", "check --data_files");
    }
    for (const std::string& file : files) require_split(file, dataset.split);
    found.insert(found.end(), files.begin(), files.end());
  }
  return found;
}

/// Names of the hub's readers of files, where a data set's name would be.
bool is_reader(const std::string& name) { return name.empty() || name == "json" || name == "parquet"; }

}  // namespace

void take_slice(Dataset& dataset) {
  const std::size_t bracket = dataset.split.find('[');
  if (bracket == std::string::npos || !dataset.split.ends_with(']')) return;
  dataset.slice = dataset.split.substr(bracket + 1, dataset.split.size() - bracket - 2);
  dataset.split.erase(bracket);
}

bool is_record_file(const std::string& path) {
  static constexpr std::array<std::string_view, 8> endings{".jsonl",     ".json",     ".jsonl.gz", ".json.gz",
                                                           ".jsonl.zst", ".json.zst", ".parquet",  ".arrow"};
  const std::string name = fs::path(path).filename().string();
  return name != "dataset_infos.json" &&
         std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

InputFiles find_inputs(const std::vector<Dataset>& datasets, std::optional<std::int64_t> max_samples,
                       bool is_optional) {
  InputFiles inputs;
  bool has_slice = false;
  for (const Dataset& dataset : datasets) {
    if (max_samples && !dataset.slice.empty()) {
      throw_config_error(fmt::format("max_samples = {} is given, and {} has the split {}[{}]", *max_samples,
                                     dataset.name, dataset.split, dataset.slice),
                         "both say which records are taken", "leave one out");
    }
    const std::string slice = max_samples ? fmt::format(":{}", *max_samples) : dataset.slice;
    const std::vector<std::string> files = find_files(dataset, is_optional);
    if (!slice.empty() && files.size() > 1) {
      throw_config_error(fmt::format("a part of {} is asked for, [{}]", dataset.name, slice),
                         fmt::format("it has {} files, and sft-prepare takes a part of each input", files.size()),
                         "name one of them with --data_files, or make one file of them");
    }
    has_slice = has_slice || !slice.empty();
    inputs.files.insert(inputs.files.end(), files.begin(), files.end());
    inputs.slices.insert(inputs.slices.end(), files.size(), slice.empty() ? ":" : slice);
  }
  if (!has_slice) inputs.slices.clear();
  return inputs;
}

std::vector<std::string> find_files(const Dataset& dataset, bool is_optional) {
  std::error_code ignored;
  if (is_reader(dataset.name)) return named_files("", dataset);
  if (fs::is_regular_file(dataset.name, ignored)) {
    require_split(dataset.name, dataset.split);
    return {dataset.name};
  }
  const fs::path folder =
      fs::is_directory(dataset.name, ignored) ? dataset.name : hub::find_dataset_folder(dataset.name);
  if (!dataset.data_files.empty()) return named_files(folder, dataset);
  std::vector<std::string> files = files_of_split(folder, dataset);
  if (files.empty() && !is_optional) {
    throw_data_error(
        fmt::format("{} has no files of the split `{}`", dataset.name, dataset.split),
        fmt::format("looked for .jsonl, .json, .parquet and .arrow below {}, and for what save_to_disk leaves",
                    folder.string()),
        "name them with --data_files, or the split with --dataset_train_split");
  }
  return files;
}

}  // namespace sft::launch
