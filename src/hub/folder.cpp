// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/folder.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "sft/core/error.hpp"
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

std::string folder_name_of(std::string name) {
  if (const std::size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return "models--" + name;
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

[[noreturn]] void refuse_missing(const std::string& name, const std::string& revision, const fs::path& cache) {
  const std::string at = revision == "main" ? "" : " --revision " + revision;
  throw_data_error(
      "cannot find the model " + name,
      "there is no folder of this name, and the hub cache " + cache.string() + " does not hold it" +
          (revision == "main" ? "" : " at revision " + revision),
      "download it with `postprocess/fetch.py model " + name + at + "`, or `hf download " + name + at + "`");
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
  const fs::path repository = cache / folder_name_of(name_or_path);
  if (revision.empty() || revision.find("..") != std::string::npos || !fs::is_directory(repository, ignored)) {
    refuse_missing(name_or_path, revision, cache);
  }
  const fs::path snapshot = repository / "snapshots" / commit_of(repository, revision);
  if (!fs::is_directory(snapshot, ignored)) refuse_missing(name_or_path, revision, cache);
  return snapshot.string();
}

std::vector<std::string> copy_companions(const std::string& from, const std::string& to) {
  std::vector<std::string> copied;
  for (const char* name : companions) {
    const fs::path source = fs::path(from) / name;
    std::error_code error;
    if (!fs::exists(source, error)) continue;
    // Files of the cache are links; what is written holds the files themselves.
    const fs::path target = fs::path(to) / name;
    fs::copy(fs::canonical(source, error), target, fs::copy_options::recursive, error);
    if (!error && !fs::is_directory(target)) {  // one that may not be written could not be replaced later
      fs::permissions(target, fs::perms::owner_write, fs::perm_options::add, error);
    }
    if (error) {
      throw_data_error("cannot copy " + source.string() + " to " + to, error.message(), "free space on the disk");
    }
    copied.emplace_back(name);
  }
  return copied;
}

NewFolder::NewFolder(const std::string& folder, bool replaces)
    : target_(fs::path(folder + "/").parent_path().string()), temporary_(target_ + ".tmp") {
  std::error_code error;
  if (!replaces && fs::exists(target_, error) && !(fs::is_directory(target_, error) && fs::is_empty(target_, error))) {
    throw_data_error("cannot write to " + folder, "it is there already", "give a folder that is new or empty");
  }
  fs::remove_all(temporary_, error);
  if (error) throw_data_error("cannot remove " + temporary_, error.message(), "check the folder's permissions");
  io::make_folders(temporary_);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void NewFolder::finish() {
  const std::string former = target_ + ".former.tmp";
  std::error_code error;
  fs::remove_all(former, error);
  if (!error && fs::exists(target_)) fs::rename(target_, former, error);
  if (!error) fs::rename(temporary_, target_, error);
  if (error) {
    throw_data_error("cannot rename " + temporary_ + " to " + target_, error.message(),
                     "check the folder's permissions");
  }
  temporary_.clear();
  fs::remove_all(former, error);
  const fs::path parent = fs::path(target_).parent_path();
  io::sync_path(parent.empty() ? "." : parent.string());
}

}  // namespace sft::hub
