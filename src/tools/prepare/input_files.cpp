// SPDX-License-Identifier: Apache-2.0
#include "prepare/prepare_options.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "prepare/byte_stream.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::prepare {

namespace {

namespace fs = std::filesystem;

/// Remembers the file. A data Error where it cannot be, or is known already.
void check_file(const std::string& file, std::set<std::pair<dev_t, ino_t>>& seen) {
  struct stat status {};
  if ((file == standard_input ? ::fstat(STDIN_FILENO, &status) : ::stat(file.c_str(), &status)) != 0) {
    throw_data_error(fmt::format("cannot read '{}'", file), std::strerror(errno), "check the path and its permissions");
  }
  if (S_ISDIR(status.st_mode)) {
    throw_data_error(fmt::format("cannot read '{}'", file), "it is a folder", "name its files");
  }
  if (!seen.insert({status.st_dev, status.st_ino}).second) {
    throw_data_error(fmt::format("'{}' is named twice", file), "its records would count double",
                     "name every file once");
  }
}

}  // namespace

std::vector<InputGroup> find_inputs(const PrepareOptions& options) {
  std::vector<InputGroup> groups;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (std::size_t i = 0; i < options.inputs.size(); ++i) {
    const std::string& input = options.inputs[i];
    const std::size_t group = options.input_groups.empty() ? i : options.input_groups[i];
    std::vector<std::string> files = {input};
    if (input != standard_input) files = io::expand_glob(input);
    if (files.empty()) {
      throw_data_error(fmt::format("no input at '{}'", input), "no such file, or no file matches the glob",
                       "name a JSON-lines file; postprocess/fetch.py downloads a data set by its name");
    }
    if (groups.size() <= group) groups.resize(group + 1);
    for (const std::string& file : files) {
      check_file(file, seen);
      groups[group].files.push_back(file);
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

}  // namespace sft::prepare
