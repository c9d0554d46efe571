// SPDX-License-Identifier: Apache-2.0
#include "launch/split_names.hpp"

#include <fnmatch.h>

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

namespace sft::launch {

namespace fs = std::filesystem;

namespace {

/// Words that mean a split, the first being its name, in the order in which `datasets` has the splits.
const std::array<std::vector<std::string>, 3> known_splits{
    {{"train", "training"}, {"validation", "valid", "dev", "val"}, {"test", "testing", "eval", "evaluation"}}};

constexpr const char* separators = "[-._ 0-9]";

bool matches(const std::string& name, const std::string& pattern) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::vector<std::string> patterns_of_file(const std::string& word) {
  return {fmt::format("{}{}*", word, separators), fmt::format("*{1}{0}{1}*", word, separators)};
}

std::vector<std::string> patterns_of_folder(const std::string& word) {
  return {word, fmt::format("{}{}*", word, separators), fmt::format("*{}{}", separators, word),
          fmt::format("*{1}{0}{1}*", word, separators)};
}

/// Names that save sets in several files: data/SPLIT-00000-of-00001.EXTENSION.
std::vector<FilesOfSplit> sort_numbered(const std::vector<std::string>& paths) {
  static const std::regex numbered("data/([^/]+)-[0-9]{5}-of-[0-9]{5}[^/]*\\.[^/]*");
  std::map<std::string, std::vector<std::string>> found;
  for (const std::string& path : paths) {
    if (std::smatch parts; std::regex_match(path, parts, numbered)) found[parts[1]].push_back(path);
  }
  std::vector<FilesOfSplit> splits;
  const auto add = [&](const std::string& split, const std::vector<std::string>& files) {
    const bool is_new = std::ranges::find(splits, split, &FilesOfSplit::split) == splits.end();
    if (is_new) splits.push_back({split, files});
  };
  for (const auto& words : known_splits) {
    if (found.contains(words.front())) add(words.front(), found[words.front()]);
  }
  for (const auto& [split, files] : found) add(split, files);
  return splits;
}

/// By the words in names. `patterns_of(word)` are tried one after the other; `fits(path, pattern)` says whether a path
/// matches.
template <class PatternsOf, class Fits>
std::vector<FilesOfSplit> sort_by_words(const std::vector<std::string>& paths, const PatternsOf& patterns_of,
                                        const Fits& fits) {
  std::vector<FilesOfSplit> splits;
  for (const auto& words : known_splits) {
    std::vector<std::string> files;
    std::set<std::string> seen;
    for (const std::string& word : words) {
      for (const std::string& pattern : patterns_of(word)) {
        for (const std::string& path : paths) {
          if (fits(path, pattern) && seen.insert(path).second) files.push_back(path);
        }
      }
    }
    if (!files.empty()) splits.push_back({words.front(), files});
  }
  return splits;
}

}  // namespace

std::vector<FilesOfSplit> sort_by_names(const std::vector<std::string>& paths) {
  std::vector<FilesOfSplit> splits = sort_numbered(paths);
  if (splits.empty()) {
    splits = sort_by_words(paths, patterns_of_folder, [](const std::string& path, const std::string& pattern) {
      const fs::path folders = fs::path(path).parent_path();
      return std::ranges::any_of(folders, [&](const fs::path& name) { return matches(name.string(), pattern); });
    });
  }
  if (splits.empty()) {
    splits = sort_by_words(paths, patterns_of_file, [](const std::string& path, const std::string& pattern) {
      return matches(fs::path(path).filename().string(), pattern);
    });
  }
  if (splits.empty() && !paths.empty()) splits.push_back({"train", paths});
  return splits;
}

bool names_split(const std::string& file, const std::string& split) {
  const auto* const known =
      std::ranges::find_if(known_splits, [&](const auto& words) { return words.front() == split; });
  const std::vector<std::string> words = known == known_splits.end() ? std::vector<std::string>{split} : *known;
  const std::string name = fs::path(file).filename().string();
  return std::ranges::any_of(words, [&](const std::string& word) {
    return std::ranges::any_of(patterns_of_file(word),
                               [&](const std::string& pattern) { return matches(name, pattern); });
  });
}

}  // namespace sft::launch
