// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/data_folder.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "launch/data_formats.hpp"
#include "launch/dataset_card.hpp"
#include "launch/split_names.hpp"
#include "sft/core/error.hpp"
#include "sft/io/file_kind.hpp"
#include "sft/io/glob.hpp"

namespace sft::launch {

namespace fs = std::filesystem;

namespace {

/// Whether it is a data set that `save_to_disk` of `datasets` left: one, or a folder for each split.
bool is_saved(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "state.json", ignored);
}
bool holds_saved_splits(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "dataset_dict.json", ignored);
}

std::vector<FilesOfSplit> saved_splits(const fs::path& folder) {
  if (is_saved(folder)) return {{"train", {folder.string()}}};
  std::vector<FilesOfSplit> splits;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (is_saved(entry.path())) splits.push_back({entry.path().filename().string(), {entry.path().string()}});
  }
  std::ranges::sort(splits, {}, &FilesOfSplit::split);
  return splits;
}

/// Files of a folder and below it, as paths from it.
struct Listing {
  std::vector<std::string> files;  ///< that may be records, sorted
  std::vector<LeftOut> others;     ///< that look like data and are none
};

Listing list_folder(const fs::path& folder) {
  Listing listing;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, ignored)) {
    const fs::path path = entry.path().lexically_relative(folder);  // in the hub cache it is a link
    const std::string format = format_of(path.string());
    if (format.empty() || !entry.is_regular_file(ignored)) continue;
    if (std::ranges::any_of(path, [](const fs::path& part) { return io::is_hidden(part.string()); })) {
      listing.others.push_back({path.string(), "hidden"});
    } else if (may_be_records(path.string())) {
      listing.files.push_back(path.string());
    } else {
      listing.others.push_back({path.string(), is_description(path.string()) ? "no records" : format});
    }
  }
  std::ranges::sort(listing.files);
  return listing;
}

std::string names_of(const std::vector<FilesOfSplit>& splits) {
  std::vector<std::string> names;
  for (const FilesOfSplit& split : splits) names.push_back(split.split);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The config that is asked for, or that the card takes for the default.
CardConfig choose_config(const std::vector<CardConfig>& configs, const std::string& wanted, const std::string& owner,
                         const ChoiceOptions& options) {
  std::vector<std::string> names;
  std::vector<CardConfig> chosen;
  for (const CardConfig& config : configs) {
    names.push_back(config.name);
    const bool is_default = configs.size() == 1 || config.name == "default" || config.is_default;
    if (wanted.empty() ? is_default : config.name == wanted) chosen.push_back(config);
  }
  if (chosen.size() == 1) return chosen.front();
  const std::string known = fmt::format("{}", fmt::join(names, ", "));
  const std::string what_to_do = fmt::format("choose one with {}", options.config);
  if (!wanted.empty()) {
    throw_data_error(fmt::format("{} has no config `{}`", owner, wanted), fmt::format("its card has {}", known),
                     what_to_do);
  }
  throw_data_error(
      fmt::format("{} has several configs", owner),
      fmt::format("its card has {}, and {} the default", known, chosen.empty() ? "none is" : "several are"),
      what_to_do);
}

/// The splits that a card's patterns make, as paths from `folder`, below which `base` lies.
std::vector<FilesOfSplit> expand_patterns(const std::vector<FilesOfSplit>& patterns, const fs::path& base,
                                          const fs::path& folder, const std::string& wanted) {
  std::vector<FilesOfSplit> splits;
  for (const FilesOfSplit& split : patterns) {
    FilesOfSplit& expanded = splits.emplace_back(FilesOfSplit{split.split, {}});
    std::set<std::string> seen;
    for (const std::string& pattern : split.files) {
      const std::vector<std::string> files = io::expand_glob_in(base.string(), pattern);
      const bool is_glob = pattern.find_first_of("*?[") != std::string::npos;
      if (files.empty() && !is_glob && split.split == wanted) {
        throw_data_error(fmt::format("cannot find the file {}", (base / pattern).string()),
                         fmt::format("the card in {} names it for the split {}", folder.string(), wanted),
                         "download or restore it, or name the files that are there");
      }
      for (const std::string& file : files) {
        const std::string path =
            fs::path(file).lexically_normal().lexically_relative(folder.lexically_normal()).string();
        const bool is_file = may_be_records(path) && fs::is_regular_file(file);
        if (is_file && seen.insert(path).second) expanded.files.push_back(path);
      }
    }
  }
  return splits;
}

/// The paths in which the word has no letter or digit next to it.
std::vector<std::string> paths_with_word(const std::vector<std::string>& paths, const std::string& word) {
  const auto has_word = [&](const std::string& path) {
    const auto is_inner = [&](std::size_t at) {
      return at < path.size() && std::isalnum(static_cast<unsigned char>(path[at])) != 0;
    };
    for (std::size_t at = path.find(word); at != std::string::npos; at = path.find(word, at + 1)) {
      if ((at == 0 || !is_inner(at - 1)) && !is_inner(at + word.size())) return true;
    }
    return false;
  };
  std::vector<std::string> found;
  std::ranges::copy_if(paths, std::back_inserter(found), has_word);
  return found;
}

std::vector<std::string> paths_below(const std::vector<std::string>& paths, const std::string& folder) {
  if (folder.empty()) return paths;
  const std::string begin = (fs::path(folder) / "").lexically_normal().string();
  std::vector<std::string> found;
  for (const std::string& path : paths) {
    if (path.starts_with(begin)) found.push_back(path);
  }
  return found;
}

/// Names alone say which split a file below `base`, a folder relative to that of the paths, belongs to.
std::vector<FilesOfSplit> sort_below(const std::vector<std::string>& paths, const std::string& base) {
  const std::string begin = base.empty() ? "" : (fs::path(base) / "").lexically_normal().string();
  std::vector<std::string> names = paths_below(paths, base);
  for (std::string& name : names) name.erase(0, begin.size());
  std::vector<FilesOfSplit> splits = sort_by_names(names);
  for (FilesOfSplit& split : splits) {
    for (std::string& file : split.files) file.insert(0, begin);
  }
  return splits;
}

/// All splits of the config that is asked for.
std::vector<FilesOfSplit> splits_of(const fs::path& folder, const Dataset& dataset, const ChoiceOptions& options,
                                    const std::vector<std::string>& files) {
  if (!dataset.data_dir.empty()) return sort_below(files, dataset.data_dir);
  if (const std::vector<CardConfig> configs = read_card(folder.string()); !configs.empty()) {
    const CardConfig config = choose_config(configs, dataset.config, dataset.name, options);
    if (config.data_files.empty()) return sort_below(files, config.data_dir);
    return expand_patterns(config.data_files, folder / config.data_dir, folder, dataset.split);
  }
  if (dataset.config.empty() || dataset.config == "default") return sort_by_names(files);
  const std::vector<std::string> part = paths_with_word(files, dataset.config);
  if (!part.empty() || files.empty()) return sort_by_names(part);
  throw_data_error(fmt::format("{} has no config `{}`", dataset.name, dataset.config),
                   "it has no card that names configs, and no file or folder is called so",
                   fmt::format("leave {} out", options.config));
}

/// Why the files that may be records and are not in `chosen` are not read.
std::vector<LeftOut> left_out_of(const std::vector<std::string>& files, const std::vector<FilesOfSplit>& splits,
                                 const FilesOfSplit& chosen) {
  std::map<std::string, std::string> splits_of_files;
  for (const FilesOfSplit& split : splits) {
    for (const std::string& file : split.files) splits_of_files.emplace(file, split.split);
  }
  for (const std::string& file : chosen.files) splits_of_files[file] = chosen.split;
  std::vector<LeftOut> left_out;
  for (const std::string& file : files) {
    const auto split = splits_of_files.find(file);
    if (split == splits_of_files.end()) {
      const std::string format = format_of(file);
      left_out.push_back({file, is_read(format) ? "of no split here" : format});
    } else if (split->second != chosen.split) {
      left_out.push_back({file, "split " + split->second});
    }
  }
  return left_out;
}

[[noreturn]] void refuse_empty(const std::string& folder, const std::string& owner, const Listing& listing) {
  for (const LeftOut& other : listing.others) {
    if (other.why != "hidden") io::require_kind((fs::path(folder) / other.file).string(), io::Expected::json_lines);
  }
  throw_data_error(fmt::format("there is no file of records in the folder {}", owner),
                   listing.others.empty()
                       ? "none ends in .jsonl, .json, .ndjson, .parquet or .arrow"
                       : fmt::format("there is {} ({})", listing.others.front().file, listing.others.front().why),
                   "name the files themselves, or write their records as JSON lines or Parquet");
}

}  // namespace

void require_whole_split(const std::string& split, const ChoiceOptions& options) {
  if (split.find_first_of("[]+:%") == std::string::npos && split != "all") return;
  throw_config_error(fmt::format("cannot take the split `{}`", split),
                     "a split is read as a whole here, and sums of splits are not known",
                     fmt::format("name one split with {}; sft-prepare takes a part of its records with --input_slice, "
                                 "such as :50%, and --eval_split holds some back",
                                 options.split));
}

void refuse_missing_split(const std::string& owner, const std::string& split, const std::vector<FilesOfSplit>& splits,
                          const ChoiceOptions& options) {
  throw_data_error(fmt::format("{} has no split `{}`", owner, split),
                   splits.empty() ? "no file of records is there" : fmt::format("it has {}", names_of(splits)),
                   splits.empty() ? "check the folder and its card" : fmt::format("choose one with {}", options.split));
}

void leave_out_other_formats(const std::vector<std::string>& files, const std::string& owner, FoundFiles& found) {
  if (files.empty()) return;
  const std::string format = most_common_format(files);
  if (!is_read(format)) {
    const auto first = std::ranges::find(files, format, format_of);
    const std::string example = first == files.end() ? files.front() : *first;
    io::require_kind(example, io::Expected::json_lines);
    throw_data_error(fmt::format("cannot read {}", owner),
                     format.empty() ? fmt::format("{} is no file of records", example)
                                    : fmt::format("most of its files are {}, such as {}", format, example),
                     "write the records as JSON lines or Parquet, or name the files that are to be read");
  }
  const std::set<std::string> candidates(files.begin(), files.end());
  std::erase_if(found.files, [&](const std::string& file) {
    const std::string other = format_of(file);
    if (!candidates.contains(file) || (other == format && may_be_records(file))) return false;
    found.left_out.push_back(
        {file, other == format || other.empty() ? "no records" : fmt::format("{}; {} is read", other, format)});
    return true;
  });
}

FoundFiles files_of_folder(const std::string& folder, const Dataset& dataset, const ChoiceOptions& options,
                           bool is_optional) {
  const bool is_saved_set = is_saved(folder) || holds_saved_splits(folder);
  if (!is_saved_set) io::require_kind(folder, io::Expected::json_lines);
  const Listing listing = is_saved_set ? Listing() : list_folder(folder);
  const std::vector<FilesOfSplit> splits =
      is_saved_set ? saved_splits(folder) : splits_of(folder, dataset, options, listing.files);
  const auto chosen = std::ranges::find(splits, dataset.split, &FilesOfSplit::split);
  const std::string owner = dataset.name.empty() ? folder : dataset.name;
  if (chosen == splits.end() || chosen->files.empty()) {
    if (is_optional) return {};
    if (listing.files.empty() && !is_saved_set) refuse_empty(folder, owner, listing);
    if (chosen == splits.end()) refuse_missing_split(owner, dataset.split, splits, options);
    throw_data_error(fmt::format("{} has no file of the split `{}`", owner, dataset.split),
                     "what its card names for it is not there", "download the files, or name those that are there");
  }
  FoundFiles found;
  const auto whole = [&](const std::string& path) { return (fs::path(folder) / path).string(); };
  for (const std::string& file : chosen->files) found.files.push_back(is_saved_set ? file : whole(file));
  if (is_saved_set) {
    for (const FilesOfSplit& split : splits) {
      if (split.split != dataset.split) found.left_out.push_back({split.files.front(), "split " + split.split});
    }
    return found;
  }
  leave_out_other_formats(found.files, owner, found);
  for (const auto& left_out : {left_out_of(listing.files, splits, *chosen), listing.others}) {
    for (const LeftOut& item : left_out) found.left_out.push_back({whole(item.file), item.why});
  }
  std::ranges::sort(found.left_out, {}, &LeftOut::file);
  return found;
}

}  // namespace sft::launch
