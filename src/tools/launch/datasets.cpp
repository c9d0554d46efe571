// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/datasets.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "launch/data_formats.hpp"
#include "launch/split_names.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/hub/folder.hpp"
#include "sft/io/file_kind.hpp"
#include "sft/io/glob.hpp"
#include "sft/launch/data_folder.hpp"

namespace sft::launch {

namespace fs = std::filesystem;

namespace {

/// Readers of files of the library `datasets`, whose names stand where a data set's would be.
enum class Reader { none, known, other };
Reader reader_of(const std::string& name) {
  static const std::set<std::string> known{"", "json", "parquet", "arrow"};
  static const std::set<std::string> others{"csv",         "text",        "xml",      "hdf5",        "pandas",
                                            "sql",         "webdataset",  "lance",    "imagefolder", "eval",
                                            "audiofolder", "videofolder", "pdffolder"};
  if (known.contains(name)) return Reader::known;
  return others.contains(name) ? Reader::other : Reader::none;
}

/// Throws a data Error unless a file that is named by itself is the split that is asked for: `train`, as in the library
/// `datasets`, or what a word of its name says.
void require_split(const std::string& file, const std::string& split) {
  if (split == "train" || names_split(file, split)) return;
  throw_data_error(fmt::format("there is no split `{}` in {}", split, file),
                   "a file that is named by itself is the split `train`, with all its records",
                   "leave the split out; for a part of the records make a file of them");
}

/// The patterns of the split that is asked for; nothing where there is no such split and `is_optional`.
std::vector<std::string> patterns_of(const Dataset& dataset, const ChoiceOptions& options, bool is_optional) {
  const auto found = std::ranges::find(dataset.data_files, dataset.split, &FilesOfSplit::split);
  if (found != dataset.data_files.end()) return found->files;
  if (is_optional) return {};
  if (dataset.data_files.size() == 1 && dataset.data_files.front().split == "train") {
    return dataset.data_files.front().files;
  }
  refuse_missing_split("data_files", dataset.split, dataset.data_files, options);
}

/// Files that a pattern names, below the folder where it is not empty.
std::vector<std::string> files_named(const std::string& pattern, const std::string& folder) {
  const std::string shown = folder.empty() ? pattern : (fs::path(folder) / pattern).string();
  if (pattern.find("://") != std::string::npos) {
    throw_data_error(fmt::format("cannot read {}", pattern), "data files are read from disks alone",
                     "download it, and name the file in --data_files");
  }
  std::vector<std::string> files = io::expand_glob_in(folder, pattern);
  if (files.empty())
    throw_data_error(fmt::format("cannot find the file {}", shown), "there is none", "check --data_files");
  std::error_code ignored;
  if (files.size() == 1 && fs::is_directory(files.front(), ignored)) {
    throw_data_error(fmt::format("cannot read {} as a file", shown), "it is a folder",
                     fmt::format("name its files, such as {}/*.jsonl, or give it as the data set", pattern));
  }
  return files;
}

FoundFiles named_files(const std::string& folder, const Dataset& dataset, const ChoiceOptions& options,
                       bool is_optional) {
  FoundFiles found;
  std::vector<std::string> of_globs;
  std::set<std::string> seen;
  for (const std::string& pattern : patterns_of(dataset, options, is_optional)) {
    for (const std::string& file : files_named(pattern, folder)) {
      std::error_code ignored;
      const bool is_named = fs::exists(fs::path(folder) / pattern, ignored);
      if (fs::is_directory(file, ignored) || !seen.insert(file).second) continue;
      found.files.push_back(file);
      if (!is_named) of_globs.push_back(file);
    }
  }
  leave_out_other_formats(of_globs, folder.empty() ? "data_files" : folder, found);
  const bool is_list =
      std::ranges::find(dataset.data_files, dataset.split, &FilesOfSplit::split) == dataset.data_files.end();
  if (is_list) std::ranges::for_each(found.files, [&](const auto& file) { require_split(file, dataset.split); });
  return found;
}

FoundFiles find_all(const Dataset& dataset, const ChoiceOptions& options, bool is_optional) {
  const Reader reader = reader_of(dataset.name);
  if (reader == Reader::other) {
    throw_data_error(
        fmt::format("cannot read files with `{}`", dataset.name), "sft-prepare reads JSON, Parquet and Arrow",
        "write the records as JSON lines, such as with to_json(PATH, orient='records', lines=True) in Python");
  }
  if (reader == Reader::known && dataset.data_files.empty()) {
    throw_data_error(fmt::format("`{}` names no files", dataset.name), "it is a reader of the library `datasets`",
                     "name them with --data_files");
  }
  if (reader == Reader::known) return named_files(dataset.data_dir, dataset, options, is_optional);
  std::error_code ignored;
  if (fs::is_regular_file(dataset.name, ignored)) {
    if (!dataset.data_files.empty()) {
      throw_config_error(fmt::format("the data set {} is a file, and data_files names others", dataset.name),
                         "data_files are files of a folder or of a name in the hub cache",
                         "leave one of the two out, or name all files in --data_files");
    }
    if (is_optional) return {};
    require_split(dataset.name, dataset.split);
    return {.files = {dataset.name}, .left_out = {}};
  }
  const fs::path folder =
      fs::is_directory(dataset.name, ignored) ? dataset.name : hub::find_dataset_folder(dataset.name);
  if (!dataset.data_files.empty())
    return named_files((folder / dataset.data_dir).string(), dataset, options, is_optional);
  return files_of_folder(folder.string(), dataset, options, is_optional);
}

constexpr std::size_t most_listed = 12;

template <class Item, class Text>
std::string list(const std::vector<Item>& items, const Text& text) {
  std::vector<std::string> texts;
  for (const Item& item : items) {
    if (texts.size() < most_listed) texts.push_back(text(item));
  }
  if (items.size() > most_listed) texts.push_back(fmt::format("and {} more", items.size() - most_listed));
  return fmt::format("{}: {}", plural(std::ssize(items), "file"), fmt::join(texts, ", "));
}

}  // namespace

FoundFiles find_files(const Dataset& dataset, const ChoiceOptions& options, bool is_optional) {
  require_whole_split(dataset.split, options);
  FoundFiles found = find_all(dataset, options, is_optional);
  for (const std::string& file : found.files) {
    const std::string format = format_of(file);
    if (format == "JSON" || !is_read(format)) io::require_kind(file, io::Expected::json_lines);
  }
  return found;
}

void take_slice(Dataset& dataset) {
  const std::size_t bracket = dataset.split.find('[');
  const bool is_one = bracket != std::string::npos && dataset.split.find(']') + 1 == dataset.split.size();
  if (!is_one) return;  // a whole split, or a sum
  dataset.slice = dataset.split.substr(bracket + 1, dataset.split.size() - bracket - 2);
  dataset.split.erase(bracket);
}

InputFiles find_inputs(const std::vector<Dataset>& datasets, std::optional<std::int64_t> max_samples,
                       const ChoiceOptions& options, bool is_optional) {
  InputFiles inputs;
  bool has_slice = false;
  for (const Dataset& dataset : datasets) {
    if (max_samples && !dataset.slice.empty()) {
      throw_config_error(fmt::format("max_samples = {} is given, and {} has the split {}[{}]", *max_samples,
                                     dataset.name, dataset.split, dataset.slice),
                         "both say which records are taken", "leave one out");
    }
    const std::string slice = max_samples ? fmt::format(":{}", *max_samples) : dataset.slice;
    FoundFiles found = find_files(dataset, options, is_optional);
    const std::vector<std::string>& files = found.files;
    std::ranges::move(found.left_out, std::back_inserter(inputs.left_out));
    if ((!slice.empty() || dataset.fraction) && files.size() > 1) {
      throw_config_error(fmt::format("a part of {} is asked for, {}", dataset.name,
                                     slice.empty() ? "by its fraction" : fmt::format("[{}]", slice)),
                         fmt::format("it has {} files, and sft-prepare takes a part of each input", files.size()),
                         "name one of them with --data_files, or make one file of them");
    }
    has_slice = has_slice || !slice.empty();
    inputs.files.insert(inputs.files.end(), files.begin(), files.end());
    inputs.slices.insert(inputs.slices.end(), files.size(), slice.empty() ? ":" : slice);
    if (dataset.fraction && !files.empty()) inputs.weights.push_back(*dataset.fraction);
  }
  if (!inputs.weights.empty() && inputs.weights.size() != inputs.files.size()) {
    throw_config_error("some data sets have a fraction, and others have none", "fractions are shares of all of them",
                       "write one for each, or for none");
  }
  if (!has_slice) inputs.slices.clear();
  return inputs;
}

std::string list_of(const std::vector<std::string>& files) { return list(files, std::identity()); }

std::string list_of(const std::vector<LeftOut>& left_out) {
  return list(left_out, [](const LeftOut& item) { return fmt::format("{} ({})", item.file, item.why); });
}

}  // namespace sft::launch
