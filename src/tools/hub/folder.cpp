// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/folder.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "sft/core/error.hpp"
#include "sft/hub/tokenizer_files.hpp"
#include "sft/io/file_kind.hpp"
#include "sft/io/files.hpp"

namespace sft::hub {

namespace fs = std::filesystem;

namespace {

/// Files that huggingface_hub and transformers put into a model folder for those who use it.
constexpr std::array companions{"generation_config.json",
                                "tokenizer.json",
                                "tokenizer_config.json",
                                "tokenizer.model",
                                "vocab.json",
                                "merges.txt",
                                "special_tokens_map.json",
                                "added_tokens.json",
                                "chat_template.jinja",
                                "chat_template.json",
                                "preprocessor_config.json",
                                "processor_config.json",
                                "video_preprocessor_config.json",
                                "tekken.json",
                                "additional_chat_templates",
                                "LICENSE",
                                "LICENSE.txt",
                                "NOTICE"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The cache folder, by the rules of huggingface_hub.
fs::path cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string folder = environment(name); !folder.empty()) return folder;
  }
  if (const std::string home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string cache = environment("XDG_CACHE_HOME");
  const fs::path base = cache.empty() ? fs::path(environment("HOME")) / ".cache" : fs::path(cache);
  return base / "huggingface" / "hub";
}

/// Whether the text can be the name of a model: NAME or ORG/NAME of letters, digits, "-", "_" and ".".
bool is_model_name(const std::string& text) {
  if (std::ranges::count(text, '/') > 1 || text.starts_with('.') || text.starts_with('/') || text.ends_with('/')) {
    return false;
  }
  return std::ranges::all_of(
      text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '/'; });
}

std::string folder_name_of(const char* kind, std::string name) {
  if (const std::size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return fmt::format("{}--{}", kind, name);
}

/// The commit that a branch or tag stands at, by the cache; the revision itself where it is none.
std::string commit_of(const fs::path& repository, const std::string& revision) {
  const fs::path reference = repository / "refs" / revision;
  std::error_code ignored;
  if (!fs::is_regular_file(reference, ignored)) return revision;
  std::string commit = io::read_file(reference.string());
  commit.erase(std::ranges::find_if(commit, [](unsigned char c) { return std::isspace(c) != 0; }), commit.end());
  return commit;
}

constexpr const char* temporary_suffix = ".tmp";
constexpr const char* former_suffix = ".former.tmp";
constexpr const char* unfinished_mark = ".sft-unfinished";

/// Marks a folder of sft as one that it may remove: an empty file, which is there or not.
void mark(const std::string& folder) {
  const std::ofstream file(fs::path(folder) / unfinished_mark);
  if (!file) throw_data_error("cannot write to " + folder, std::strerror(errno), "check the folder's permissions");
}

/// Whether the path is a folder, no link to one, with the mark.
bool is_marked(const std::string& folder) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(folder, error)) && fs::exists(fs::path(folder) / unfinished_mark, error);
}

/// Whether the folder holds a model or an adapter, and nothing that sft does not write beside one.
bool is_own(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error))) return false;
  bool has_config = false;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, error)) {
    const std::string name = file.path().filename().string();
    const bool is_config = name == "config.json" || name == "adapter_config.json";
    const bool is_weights = name.ends_with(".safetensors") || name == "model.safetensors.index.json";
    const bool is_companion = std::ranges::find(companions, name) != companions.end();
    if (!is_config && !is_weights && !is_companion && name != unfinished_mark) return false;
    has_config = has_config || is_config;
  }
  return has_config && !error;
}

void rename_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error)
    throw_data_error(fmt::format("cannot rename {} to {}", from, to), error.message(),
                     "check the folder's permissions");
}

/// Removes a marked folder, the mark last: what a kill leaves of it is marked still.
void remove_marked(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, error)) {
    if (file.path().filename() != unfinished_mark) files.push_back(file.path());
  }
  for (const fs::path& file : files) {
    if (!error) fs::remove_all(file, error);
  }
  if (!error) fs::remove_all(folder, error);
  if (error) throw_data_error("cannot remove " + folder, error.message(), "check the folder's permissions");
}

/// Nothing is at `path` any more: what a killed run left there is removed, anything else set aside.
void make_room(const std::string& path) {
  std::error_code error;
  if (is_marked(path)) {
    remove_marked(path);
  } else if (fs::is_directory(fs::symlink_status(path, error)) && fs::is_empty(path, error)) {
    fs::remove(path, error);
  } else if (fs::exists(fs::symlink_status(path, error))) {
    io::set_aside(path, "sft writes a folder under this name until it is complete, and did not make this one");
  }
}

[[noreturn]] void refuse_missing(const std::string& name, const std::string& revision, const fs::path& cache) {
  const std::string at = revision == "main" ? "" : " --revision " + revision;
  throw_data_error(
      "cannot find the model " + name,
      fmt::format("there is no folder of this name, and the hub cache {} does not hold it{}", cache.string(),
                  (revision == "main" ? "" : " at revision " + revision)),
      fmt::format("download it with `postprocess/fetch.py model {}{}`, or `hf download {}{}`", name, at, name, at));
}

}  // namespace

bool is_model_folder(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(fs::path(folder) / "config.json", ignored);
}

std::string find_model_folder(const std::string& name_or_path, const std::string& revision) {
  std::error_code ignored;
  if (fs::is_directory(name_or_path, ignored)) return name_or_path;
  if (fs::exists(name_or_path, ignored)) {
    io::require_kind(name_or_path, io::Expected::model);
    throw_data_error("cannot start from " + name_or_path, "it is a file",
                     "give the folder with config.json and the weights");
  }
  if (!is_model_name(name_or_path)) {
    throw_data_error("cannot find the model folder " + name_or_path, "there is no such folder", "check the path");
  }
  const fs::path cache = cache_folder();
  const fs::path repository = cache / folder_name_of("models", name_or_path);
  if (revision.empty() || revision.find("..") != std::string::npos || !fs::is_directory(repository, ignored)) {
    refuse_missing(name_or_path, revision, cache);
  }
  const fs::path snapshot = repository / "snapshots" / commit_of(repository, revision);
  if (!fs::is_directory(snapshot, ignored)) refuse_missing(name_or_path, revision, cache);
  return snapshot.string();
}

std::string find_dataset_folder(const std::string& name) {
  std::error_code ignored;
  const fs::path cache = cache_folder();
  if (is_model_name(name)) {
    const fs::path repository = cache / folder_name_of("datasets", name);
    if (const fs::path snapshot = repository / "snapshots" / commit_of(repository, "main");
        fs::is_directory(snapshot, ignored)) {
      return snapshot.string();
    }
  }
  if (!is_model_name(name)) {
    throw_data_error(fmt::format("cannot find the data set {}", name), "there is no file or folder of this name",
                     "check the path");
  }
  throw_data_error(
      fmt::format("cannot find the data set {}", name),
      fmt::format("there is no file or folder of this name, and the hub cache {} does not hold it", cache.string()),
      fmt::format("download it with `hf download --repo-type dataset {0}`, or with `postprocess/fetch.py dataset {0} "
                  "--output FILE.jsonl` and give --data_files FILE.jsonl",
                  name));
}

std::vector<std::string> copy_companions(const std::string& from, const std::string& to) {
  std::vector<std::string> copied;
  for (const char* name : companions) {
    const fs::path source = fs::path(from) / name;
    std::error_code error;
    if (!fs::exists(source, error)) continue;
    // Files of the cache are links; what is written holds the files themselves.
    const fs::path target = fs::path(to) / name;
    constexpr auto options = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
    fs::copy(fs::canonical(source, error), target, options, error);
    if (!error && !fs::is_directory(target)) {  // one that may not be written could not be replaced later
      fs::permissions(target, fs::perms::owner_write, fs::perm_options::add, error);
    }
    if (error) {
      throw_data_error(fmt::format("cannot copy {} to {}", source.string(), to), error.message(),
                       "free space on the disk");
    }
    copied.emplace_back(name);
  }
  make_tokenizer_readable(to);
  return copied;
}

NewFolder::NewFolder(const std::string& folder, bool replaces)
    : target_(fs::path(folder + "/").parent_path().string()), temporary_(target_ + temporary_suffix) {
  recover(target_);
  std::error_code error;
  if (!replaces && fs::exists(target_, error) && !(fs::is_directory(target_, error) && fs::is_empty(target_, error))) {
    throw_data_error("cannot write to " + folder, "it is there already", "give a folder that is new or empty");
  }
  make_room(temporary_);
  io::make_folders(temporary_);
  mark(temporary_);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void NewFolder::finish() {
  // 1. What is there, so that it may be removed whenever this ends
  const bool exists = fs::exists(fs::symlink_status(target_));
  const bool is_replaceable = exists && is_own(target_);
  if (exists && !is_replaceable) {
    io::set_aside(target_, "what this run leaves takes its name, and it holds other files than a model");
  } else if (exists) {
    mark(target_);
  }

  // 2. The name
  std::string former;
  if (!is_replaceable) {
    rename_folder(temporary_, target_);
  } else if (io::exchange_paths(temporary_, target_)) {
    former = temporary_;
  } else {
    former = target_ + former_suffix;
    make_room(former);
    rename_folder(target_, former);
    rename_folder(temporary_, target_);
  }
  temporary_.clear();
  const fs::path parent = fs::path(target_).parent_path();
  io::sync_path(parent.empty() ? "." : parent.string());

  // 3. What is needed no more
  std::error_code ignored;
  fs::remove(fs::path(target_) / unfinished_mark, ignored);
  if (!former.empty()) remove_marked(former);
}

void NewFolder::recover(const std::string& folder) {
  const std::string former = folder + former_suffix, temporary = folder + temporary_suffix;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error)) && is_marked(former)) rename_folder(former, folder);
  for (const std::string& left : {temporary, former}) {
    if (is_marked(left)) remove_marked(left);
  }
  if (is_marked(folder)) fs::remove(fs::path(folder) / unfinished_mark, error);
}

}  // namespace sft::hub
