// SPDX-License-Identifier: Apache-2.0
#include "machines.hpp"

#include <fmt/core.h>
#include <filesystem>
#include <system_error>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::apps {

namespace fs = std::filesystem;

namespace {

/// A file that is installed with this program.
std::string installed(const char* file) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return (program.parent_path().parent_path() / file).string();
}

}  // namespace

std::string machines_file() { return installed("share/sft/machines.ini"); }

std::string absent_driver_file() { return installed("lib/sft/absent_driver.so"); }

std::vector<simulator::Hardware> known_machines() {
  return simulator::read_machines(io::read_file(machines_file()), machines_file());
}

simulator::Hardware machine_named(const std::string& name) {
  std::error_code error;
  if (!fs::is_regular_file(name, error)) {
    return simulator::find_machine(name, known_machines());
  }
  const std::vector<simulator::Hardware> machines = simulator::read_machines(io::read_file(name), name);
  if (machines.size() != 1) {
    throw_config_error(fmt::format("{} describes {} machines", name, machines.size()), "a plan is for one",
                       "give a file of one [machine]");
  }
  return machines.front();
}

}  // namespace sft::apps
