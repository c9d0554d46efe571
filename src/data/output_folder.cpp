// SPDX-License-Identifier: Apache-2.0
#include "data/output_folder.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"

namespace sft::data {

namespace {

namespace fs = std::filesystem;

constexpr const char* lock_name = "sft-prepare.lock";

bool is_ours(std::string_view name) { return name.starts_with("train-") || name.starts_with("eval-"); }

/// train-00000.h5.TAG.tmp, as NewFiles makes them.
bool is_unfinished(std::string_view name) {
  constexpr std::string_view end = ".tmp", shard_end = ".h5.";
  if (!is_ours(name) || !name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  const std::size_t tag = name.rfind(shard_end);
  return tag != std::string_view::npos &&
         name.find_first_not_of("0123456789abcdef", tag + shard_end.size()) == std::string_view::npos;
}

void remove_unfinished(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (is_unfinished(entry.path().filename().string())) paths.push_back(entry.path());
  }
  for (const fs::path& path : paths) fs::remove(path, ignored);
}

void refuse_shards(const std::string& folder) {
  const std::vector<std::string> old_shards = find_shards(folder);
  if (old_shards.empty()) return;
  const std::string names = old_shards.front() + (old_shards.size() > 1 ? " and more" : "");
  if (!old_shards.front().ends_with("train-00000.h5")) {
    throw_data_error(fmt::format("'{}' holds a part of packed data", folder),
                     names + ", but not train-00000.h5: an sft-prepare was killed while it named its files",
                     "remove its train-*.h5 and eval-*.h5");
  }
  throw_data_error(fmt::format("'{}' already holds packed data", folder), names,
                   "remove its train-*.h5 and eval-*.h5, or choose another folder");
}

}  // namespace

std::vector<std::string> find_shards(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (is_ours(name) && name.ends_with(".h5")) paths.push_back(entry.path().string());
  }
  const auto is_of_eval = [](const std::string& path) {
    return fs::path(path).filename().string().starts_with("eval-");
  };
  std::ranges::sort(paths, {}, [&](const std::string& path) { return std::pair(is_of_eval(path), path); });
  return paths;
}

OutputFolder::MadeFolders::MadeFolders(const std::string& path) {
  std::error_code ignored;
  for (fs::path missing = fs::absolute(path); !fs::exists(missing, ignored) && missing.has_relative_path();
       missing = missing.parent_path()) {
    paths_.insert(paths_.begin(), missing.string());
  }
  io::make_folders(path);
}

OutputFolder::MadeFolders::~MadeFolders() {
  std::error_code error;
  while (!paths_.empty() && !error) {
    fs::remove(paths_.back(), error);  // not one with a file in it
    paths_.pop_back();
  }
}

OutputFolder::OutputFolder(const std::string& path) : made_(path), lock_((fs::path(path) / lock_name).string()) {
  if (lock_.is_held_by_another()) {
    throw_data_error(fmt::format("another sft-prepare is writing to '{}'", path),
                     fmt::format("{} holds {}", lock_.holder(), lock_.path()), "wait for it, or choose another folder");
  }
  try {
    refuse_shards(path);
  } catch (...) {
    lock_.remove();
    throw;
  }
  if (lock_.is_held()) {
    remove_unfinished(path);
    return;
  }
  log_warning(fmt::format(
      "cannot lock {} ({}): nothing keeps a second sft-prepare from writing to this folder at the same time",
      lock_.path(), lock_.reason()));
}

OutputFolder::~OutputFolder() { lock_.remove(); }

NewFiles::NewFiles() {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", std::random_device()());
  tag_ = text;
}

NewFiles::~NewFiles() {
  std::error_code ignored;
  for (std::size_t i = 0; i < final_paths_.size(); ++i) {
    fs::remove(i < num_waiting_ ? temporary(final_paths_[i]) : final_paths_[i], ignored);
  }
}

std::string NewFiles::temporary(const std::string& final_path) const {
  return fmt::format("{}.{}.tmp", final_path, tag_);
}

std::string NewFiles::add(const std::string& final_path) {
  final_paths_.push_back(final_path);
  ++num_waiting_;
  return temporary(final_path);
}

void NewFiles::rename_all(const std::string& folder) {
  while (num_waiting_ > 0) {
    if (num_waiting_ == 1) io::sync_path(folder);
    const std::string& path = final_paths_[num_waiting_ - 1];
    const std::error_code error = io::rename_to_free_name(temporary(path), path);
    if (error) throw_data_error(fmt::format("cannot write '{}'", path), error.message(), "check the folder");
    --num_waiting_;
  }
  io::sync_path(folder);
}

}  // namespace sft::data
