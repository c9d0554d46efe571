// SPDX-License-Identifier: Apache-2.0
#include "data/prepare_options.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "data/byte_stream.hpp"
#include "sft/core/error.hpp"
#include "sft/io/file_kind.hpp"
#include "sft/io/files.hpp"

namespace sft::data {

namespace {

namespace fs = std::filesystem;

bool is_json_name(std::string name) {
  for (const char* packed : {".gz", ".zst"}) {
    if (name.ends_with(packed)) name.resize(name.size() - std::strlen(packed));
  }
  return name.ends_with(".jsonl") || name.ends_with(".json");
}

std::vector<std::string> json_files_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (is_json_name(entry.path().filename().string()) && entry.is_regular_file(error)) {
      paths.push_back(entry.path().string());
    }
  }
  if (error)
    throw_data_error(fmt::format("cannot read '{}'", folder), error.message(), "check the path and its permissions");
  if (paths.empty()) {
    throw_data_error(fmt::format("no input in the folder '{}'", folder),
                     "it holds no file that ends in .jsonl or .json, nor .gz or .zst of these",
                     "name the files themselves");
  }
  std::ranges::sort(paths);
  return paths;
}

/// Whether a folder is one of data files and not of a program.
std::vector<std::string> files_at(const std::string& path) {
  if (path == standard_input || !fs::is_directory(path)) return {path};
  for (const char* foreign : {"config.json", "checkpoint.h5", "dataset_info.json"}) {
    if (fs::exists(fs::path(path) / foreign)) io::require_kind(path, io::Expected::json_lines);
  }
  return json_files_in(path);
}

}  // namespace

std::vector<InputGroup> find_inputs(const std::vector<std::string>& patterns) {
  std::vector<InputGroup> groups;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const std::string& pattern : patterns) {
    std::vector<std::string> paths = {pattern};
    if (pattern != standard_input) paths = io::expand_glob(pattern);
    if (paths.empty()) {
      throw_data_error(fmt::format("no input at '{}'", pattern), "no such file, or no file matches the glob",
                       "name a JSON-lines file; postprocess/fetch.py downloads a data set by its name");
    }
    groups.push_back({pattern, {}});
    for (const std::string& path : paths) {
      for (const std::string& file : files_at(path)) {
        struct stat status {};
        if ((file == standard_input ? ::fstat(STDIN_FILENO, &status) : ::stat(file.c_str(), &status)) != 0) {
          throw_data_error(fmt::format("cannot read '{}'", file), std::strerror(errno),
                           "check the path and its permissions");
        }
        if (!seen.insert({status.st_dev, status.st_ino}).second) {
          throw_data_error(fmt::format("'{}' is named twice", file), "its records would count double",
                           "name every file once");
        }
        groups.back().files.push_back(file);
      }
    }
  }
  return groups;
}

void require_files(const std::vector<InputGroup>& groups) {
  for (const InputGroup& group : groups) {
    for (const std::string& file : group.files) {
      if (file != standard_input && fs::is_regular_file(file)) continue;
      throw_config_error(fmt::format("cannot read '{}' on several ranks", file),
                         "each reads a share of the inputs, and a pipe has no places to begin at",
                         "name a file, or start sft-prepare without mpirun");
    }
  }
}

}  // namespace sft::data
