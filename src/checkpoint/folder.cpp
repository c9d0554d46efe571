// SPDX-License-Identifier: Apache-2.0
#include "folder.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr const char* prefix = "checkpoint-";
constexpr const char* temporary_suffix = ".tmp";
constexpr const char* former_suffix = ".former.tmp";    // complete, waits for the new one
constexpr const char* retired_suffix = ".retired.tmp";  // being removed

void rename_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) throw_data_error("cannot rename " + from + " to " + to, error.message(), "check the folder's permissions");
}

void remove_folder(const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) throw_data_error("cannot remove " + folder, error.message(), "check the folder's permissions");
}

/// The paths in `parent` that checkpoints in the making or going have, by the end of their names.
std::vector<std::string> leftovers(const std::string& parent, const char* suffix) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(suffix)) paths.push_back(entry.path().string());
  }
  return paths;
}

/// Whether the two folders have changed names, which not every file system can.
bool exchange(const std::string& one, const std::string& other) {
  return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

std::string shard_file_name(int rank) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "shard-%05d.h5", rank);
  return text.data();
}

std::string index_path(const std::string& folder) { return (fs::path(folder) / "checkpoint.h5").string(); }

std::string parent_of(const std::string& folder) {
  const fs::path parent = fs::path(folder).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::string temporary_path(const std::string& folder) { return folder + temporary_suffix; }

bool is_temporary(const std::string& folder) { return folder.ends_with(temporary_suffix); }

std::optional<std::int64_t> step_of(const std::string& folder) {
  const std::string name = fs::path(folder).filename().string();
  if (!name.starts_with(prefix)) return std::nullopt;
  const char* begin = name.data() + std::char_traits<char>::length(prefix);
  const char* end = name.data() + name.size();
  std::int64_t step = 0;
  const auto [parsed, error] = std::from_chars(begin, end, step);
  if (begin == end || parsed != end || error != std::errc() || step < 0) return std::nullopt;
  return step;
}

std::string path_of(const std::string& output_dir, std::int64_t step) {
  std::array<char, 48> name{};
  std::snprintf(name.data(), name.size(), "%s%06lld", prefix, static_cast<long long>(step));
  return (fs::path(output_dir) / name.data()).string();
}

std::vector<std::string> list(const std::string& output_dir, std::int64_t after_step) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(output_dir, error)) {
    const std::string path = entry.path().string();
    const std::optional<std::int64_t> step = step_of(path);
    if (step && *step > after_step && fs::exists(index_path(path))) found.emplace_back(*step, path);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> folders;
  for (auto& [step, path] : found) folders.push_back(std::move(path));
  return folders;
}

void retire_folder(const std::string& folder) {
  rename_folder(folder, folder + retired_suffix);
  remove_folder(folder + retired_suffix);
}

void recover_folders(const std::string& output_dir) {
  for (const std::string& former : leftovers(output_dir, former_suffix)) {
    const std::string folder = former.substr(0, former.size() - std::char_traits<char>::length(former_suffix));
    if (!fs::exists(folder)) rename_folder(former, folder);
  }
}

void begin_folder(const std::string& folder) {
  const std::string parent = parent_of(folder);
  io::make_folders(parent);
  recover_folders(parent);
  for (const std::string& path : leftovers(parent, temporary_suffix)) remove_folder(path);
  io::make_folders(temporary_path(folder));
}

void discard_folder(const std::string& folder) {
  std::error_code ignored;
  fs::remove_all(temporary_path(folder), ignored);
}

void commit_folder(const std::string& folder) {
  const std::string temporary = temporary_path(folder);
  io::sync_path(temporary);
  std::string former;
  if (!fs::exists(folder)) {
    rename_folder(temporary, folder);
  } else if (exchange(temporary, folder)) {
    former = temporary;
  } else {
    former = folder + former_suffix;
    rename_folder(folder, former);
    rename_folder(temporary, folder);
  }
  io::sync_path(parent_of(folder));
  if (!former.empty()) remove_folder(former);
}

}  // namespace sft::checkpoint
