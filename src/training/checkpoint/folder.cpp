// SPDX-License-Identifier: Apache-2.0
#include "folder.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"

namespace sft::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr const char* prefix = "checkpoint-";
constexpr const char* temporary_suffix = ".tmp";
constexpr const char* former_suffix = ".former.tmp";    // complete, waits for the new one
constexpr const char* retired_suffix = ".retired.tmp";  // being removed
constexpr const char* index_name = "checkpoint.h5";
constexpr std::string_view tensor_index_name = "tensors.h5";
constexpr std::string_view shard_begin = "shard-", shard_end = ".h5";

void rename_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) throw_data_error("cannot rename " + from + " to " + to, error.message(), "check the folder's permissions");
}

/// Whether it is "shard-RANK.h5" or "shard-STEP-NUMBER-RANK.h5".
bool is_shard_name(std::string_view name) {
  constexpr std::string_view digits = "0123456789", hex_digits = "0123456789abcdef";
  if (!name.starts_with(shard_begin) || !name.ends_with(shard_end)) return false;
  name.remove_prefix(shard_begin.size());
  name.remove_suffix(std::min(shard_end.size(), name.size()));
  std::vector<std::string_view> parts;
  for (std::size_t dash = name.find('-'); dash != name.npos; dash = name.find('-')) {
    parts.push_back(name.substr(0, dash));
    name.remove_prefix(dash + 1);
  }
  parts.push_back(name);
  const auto consists_of = [](std::string_view part, std::string_view allowed) {
    return !part.empty() && part.find_first_not_of(allowed) == part.npos;
  };
  if (!consists_of(parts.front(), digits) || !consists_of(parts.back(), digits)) return false;
  return parts.size() == 1 || (parts.size() == 3 && parts[1].size() == 16 && consists_of(parts[1], hex_digits));
}

/// Whether sft writes files of this kind and name into checkpoints.
bool is_own(const fs::directory_entry& file) {
  const std::string name = file.path().filename().string();
  if (!fs::is_regular_file(file.symlink_status())) return false;
  return name == index_name || name == tensor_index_name || temporary_path(std::string(tensor_index_name)) == name ||
         is_shard_name(name);
}

/// Whether the path is a folder, no link to one, that holds nothing but a checkpoint, or a part of one.
bool holds_only_own(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error))) return false;
  const fs::directory_iterator files(folder, error);
  return !error && std::all_of(begin(files), end(files), is_own);
}

/// Removes the files of a checkpoint, the index first, and the folder unless something else is in it. Returns whether
/// it is gone.
bool remove_own(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, error)) {
    if (is_own(file)) files.push_back(file.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    if (!error) fs::remove(file, error);
  }
  if (!error && fs::is_empty(folder, error)) fs::remove(folder, error);
  if (error) throw_data_error("cannot remove " + folder, error.message(), "check the folder's permissions");
  return !fs::exists(folder);
}

/// The paths in `parent` that checkpoints in the making or going have, by the end of their names.
std::vector<std::string> leftovers(const std::string& parent, std::string_view suffix) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    const std::string path = entry.path().string();
    if (path.ends_with(suffix) && step_of(path.substr(0, path.size() - suffix.size()))) paths.push_back(path);
  }
  return paths;
}

/// Nothing is at `path` any more: what a broken save left there is removed, anything else set aside.
void make_room(const std::string& path) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return;
  if (holds_only_own(path)) {
    static_cast<void>(remove_own(path));
  } else {
    io::set_aside(path, "a checkpoint is written under this name until it is complete, and these files are not sft's");
  }
}

/// Removes the checkpoint that a new one took the place of. What else was in its folder is kept.
void remove_replaced(const std::string& former, const std::string& folder) {
  if (holds_only_own(former)) {
    static_cast<void>(remove_own(former));
  } else {
    io::set_aside(former, "a checkpoint of this step took its name, and it holds other files than a checkpoint",
                  folder);
  }
}

}  // namespace

std::string new_shard_prefix(std::int64_t step) {
  std::random_device random;
  return fmt::format("{}{:06}-{:08x}{:08x}-", shard_begin, step, random(), random());
}

std::string shard_file_name(const std::string& name_begin, int rank) {
  return fmt::format("{}{:05}{}", name_begin, rank, shard_end);
}

std::string index_path(const std::string& folder) { return (fs::path(folder) / index_name).string(); }

std::string tensor_index_path(const std::string& folder) { return (fs::path(folder) / tensor_index_name).string(); }

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
  const std::string retired = folder + retired_suffix;
  make_room(retired);
  rename_folder(folder, retired);
  if (remove_own(retired)) return;
  rename_folder(retired, folder);
  log_warning(folder + " is no checkpoint any more, by save_total_limit, but still holds files that are not sft's");
}

void recover_folders(const std::string& output_dir) {
  for (const std::string& former : leftovers(output_dir, former_suffix)) {
    const std::string folder = former.substr(0, former.size() - std::char_traits<char>::length(former_suffix));
    if (!fs::exists(folder) && fs::exists(index_path(former))) rename_folder(former, folder);
  }
}

void make_temporary_folder(const std::string& folder) {
  make_room(temporary_path(folder));
  io::make_folders(temporary_path(folder));
}

void begin_folder(const std::string& folder) {
  const std::string parent = parent_of(folder);
  io::make_folders(parent);
  recover_folders(parent);
  for (const char* suffix : {temporary_suffix, former_suffix, retired_suffix}) {
    for (const std::string& path : leftovers(parent, suffix)) {
      if (holds_only_own(path)) static_cast<void>(remove_own(path));
    }
  }
  make_temporary_folder(folder);
}

void discard_folder(const std::string& folder) {
  try {
    static_cast<void>(remove_own(temporary_path(folder)));
  } catch (const std::exception&) {  // the error that led here says more
  }
}

void commit_folder(const std::string& folder) {
  const std::string temporary = temporary_path(folder);
  io::sync_path(temporary);
  std::string former;
  if (!fs::exists(folder)) {
    rename_folder(temporary, folder);
  } else if (io::exchange_paths(temporary, folder)) {
    former = temporary;
  } else {
    former = folder + former_suffix;
    make_room(former);
    rename_folder(folder, former);
    rename_folder(temporary, folder);
  }
  io::sync_path(parent_of(folder));
  if (!former.empty()) remove_replaced(former, folder);
}

}  // namespace sft::checkpoint
