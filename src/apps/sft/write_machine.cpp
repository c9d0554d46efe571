// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <filesystem>

#include "planning.hpp"
#include "sft/check/measure_machine.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"
#include "sft/simulator/hardware.hpp"

namespace sft::apps {

void write_machine(const check::CheckedMachine& checked, const std::string& file, double start_s) {
  const std::string parent = std::filesystem::path(file).parent_path().string();
  simulator::Hardware machine = check::measure_machine(checked, parent.empty() ? "." : parent, start_s);
  machine.name = std::filesystem::path(file).stem().string();
  checked.groups.world.agree([&] {
    if (checked.groups.world.rank() != 0) return;
    io::write_file_atomically(file, simulator::to_ini(machine));
    log_info(fmt::format("\nwrote {}: plans of time read it as --machine {}", file, file));
  });
}

}  // namespace sft::apps
