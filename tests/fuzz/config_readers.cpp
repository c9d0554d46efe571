// SPDX-License-Identifier: Apache-2.0
// Configurations and command lines.
#include <algorithm>
#include <optional>
#include <sstream>

#include "readers.hpp"
#include "sft/config/parse.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/core/ensure.hpp"

namespace sft::fuzz {

namespace {

/// What it was read as is what it is read as again when it is written down.
void check(const config::Config& config) {
  const std::string text = config::to_ini(config);
  SFT_ENSURE(config::to_ini(config::parse(text, {}, "again")) == text,
             "a configuration that was read is read again the same");
  (void)config::validate(config, 16);
}

void read_ini(const std::string& bytes) { check(config::parse(bytes, {}, "run.ini")); }

/// A line each: NAME=VALUE, or NAME alone.
void read_command_line(const std::string& bytes) {
  std::vector<config::Option> options;
  std::istringstream lines(bytes);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end = std::min(line.find('='), line.size());
    config::Option option{.name = line.substr(0, end), .value = std::nullopt};
    std::replace(option.name.begin(), option.name.end(), '-', '_');
    if (end < line.size()) option.value = line.substr(end + 1);
    options.push_back(option);
  }
  check(config::parse("[data]\ntrain_files = rows.h5\n", options, "run.ini"));
}

/// The same as options of sft-prepare.
void read_prepare_names(const std::string& bytes) {
  std::istringstream lines(bytes);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end = std::min(line.find('='), line.size());
    (void)config::meaning_to_prepare({.name = line.substr(0, end), .value = line.substr(end)},
                                     {"input", "output", "max_length", "packing"});
  }
}

}  // namespace

std::vector<Reader> config_readers() {
  return {{"ini", read_ini}, {"command_line", read_command_line}, {"prepare_names", read_prepare_names}};
}

}  // namespace sft::fuzz
