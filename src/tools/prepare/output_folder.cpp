// SPDX-License-Identifier: Apache-2.0
#include "prepare/output_folder.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <filesystem>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"

namespace sft::prepare {

namespace {

namespace fs = std::filesystem;

constexpr const char* lock_name = "sft-prepare.lock";

bool is_ours(std::string_view name) { return name.starts_with("train-") || name.starts_with("eval-"); }

/// train-00000.h5.TAG.tmp, as new_file() names them.
bool is_unfinished(std::string_view name) {
  constexpr std::string_view end = ".tmp", shard_end = ".h5.";
  if (!is_ours(name) || !name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  const std::size_t tag = name.rfind(shard_end);
  return tag != std::string_view::npos &&
         name.find_first_not_of("0123456789abcdef", tag + shard_end.size()) == std::string_view::npos;
}

/// documents-00000.tmp, as shared_documents_path() names them.
bool is_of_documents(std::string_view name) { return name.starts_with("documents-") && name.ends_with(".tmp"); }

/// The files in the folder whose names `is_meant` says yes to.
template <class IsMeant>
std::vector<std::string> find_files(const std::string& folder, const IsMeant& is_meant) {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (is_meant(entry.path().filename().string())) paths.push_back(entry.path().string());
  }
  return paths;
}

void remove_all(const std::vector<std::string>& paths) {
  std::error_code ignored;
  for (const std::string& path : paths) fs::remove(path, ignored);
}

/// Refuses a whole set; of a part, whose naming was interrupted, make_room() knows whether it can be gone on with.
void refuse_shards(const std::string& folder) {
  const std::vector<std::string> old_shards = find_shards(folder);
  if (old_shards.empty() || !old_shards.front().ends_with("train-00000.h5")) return;
  const std::string names = old_shards.front() + (old_shards.size() > 1 ? " and more" : "");
  throw_data_error(fmt::format("'{}' already holds packed data", folder), names,
                   "remove its train-*.h5 and eval-*.h5, or choose another folder");
}

}  // namespace

std::vector<std::string> find_shards(const std::string& folder) {
  std::vector<std::string> paths =
      find_files(folder, [](const std::string& name) { return is_ours(name) && name.ends_with(".h5"); });
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

OutputFolder::OutputFolder(const std::string& path)
    : path_(path), made_(path), lock_((fs::path(path) / lock_name).string()) {
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
    remove_all(find_files(path, is_of_documents));
    return;
  }
  log_warning(fmt::format(
      "cannot lock {} ({}): nothing keeps a second sft-prepare from writing to this folder at the same time",
      lock_.path(), lock_.reason()));
}

OutputFolder::~OutputFolder() { lock_.remove(); }

void OutputFolder::make_room(const std::vector<NewFile>& files) const {
  const auto is_new = [&](const std::string& path, std::string NewFile::*name) {
    return std::ranges::any_of(
        files, [&](const NewFile& file) { return fs::path(file.*name).filename() == fs::path(path).filename(); });
  };
  for (const std::string& path : find_shards(path_)) {
    if (!is_new(path, &NewFile::path)) refuse_part(path);
  }
  if (!is_locked()) return;
  std::vector<std::string> old = find_files(path_, is_unfinished);
  std::erase_if(old, [&](const std::string& path) { return is_new(path, &NewFile::temporary_path); });
  remove_all(old);
}

std::string shared_documents_path(const std::string& folder, int rank) {
  return (fs::path(folder) / fmt::format("documents-{:05}.tmp", rank)).string();
}

NewFile new_file(const std::string& path, const std::string& tag) {
  return {path, fmt::format("{}.{}.tmp", path, tag)};
}

void refuse_part(const std::string& path) {
  throw_data_error(fmt::format("'{}' holds a part of other packed data", fs::path(path).parent_path().string()),
                   path + ", but not train-00000.h5: an sft-prepare was killed while it named its files",
                   "go on with its own command, or remove its train-*.h5 and eval-*.h5");
}

void name_all(const std::string& folder, const std::vector<NewFile>& files) {
  std::vector<NewFile> named;
  const auto take_names_back = [&] {
    for (const NewFile& file : named) static_cast<void>(io::rename_to_free_name(file.path, file.temporary_path));
  };
  for (std::size_t left = files.size(); left > 0; --left) {
    const NewFile& file = files[left - 1];
    if (left == 1) io::sync_path(folder);
    if (!fs::exists(file.temporary_path)) continue;
    const std::error_code error = io::rename_to_free_name(file.temporary_path, file.path);
    if (error) {
      take_names_back();
      throw_data_error(fmt::format("cannot write '{}'", file.path), error.message(), "check the folder");
    }
    named.push_back(file);
  }
  io::sync_path(folder);
}

std::string random_tag() { return fmt::format("{:08x}", std::random_device()()); }

}  // namespace sft::prepare
