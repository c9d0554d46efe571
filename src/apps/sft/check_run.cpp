// SPDX-License-Identifier: Apache-2.0
#include "check_run.hpp"

#include <fmt/core.h>
#include <chrono>
#include <filesystem>
#include <memory>

#include "sft/check/check_machine.hpp"
#include "sft/check/measure_machine.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/io/files.hpp"
#include "sft/simulator/hardware.hpp"

namespace sft::apps {

namespace {

/// Measures the machine and writes it to a file that --machine reads. Collective.
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

}  // namespace

void check_run(const RunContext& on, const std::string& machine_file) {
  const std::unique_ptr<comm::Collectives> collectives = on.make_collectives();
  const double start_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() -
                         process_start_time_s();
  const check::CheckedMachine machine{on.session, on.config,    on.device,       on.place,
                                      on.groups,  *collectives, on.transport.way};
  check::check_machine(machine);
  if (!machine_file.empty()) write_machine(machine, machine_file, start_s);
}

}  // namespace sft::apps
