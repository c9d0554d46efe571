// SPDX-License-Identifier: Apache-2.0
// planning.hpp of a build without the planner and the simulator: refused by name.
#include "planning.hpp"
#include "sft/core/error.hpp"

namespace sft::apps {

void require_planner(const SftOptions& command) {
  using Action = SftOptions::Action;
  const char* const option = command.action == Action::dry_run             ? "--dry-run"
                             : command.action == Action::compile_attention ? "--compile-attention"
                             : !command.machine.empty()                    ? "--machine"
                             : !command.machine_file.empty()               ? "--write_machine"
                                                                           : nullptr;
  if (option == nullptr) return;
  throw_config_error(std::string(option) + " needs the planner",
                     "this program was built without it (-DSFT_PLANNER=OFF)",
                     "build again with -DSFT_PLANNER=ON, or leave the option out");
}

void print_dry_run(const config::ValidConfig& /*given*/, const SftOptions& command) { require_planner(command); }
void compile_attention(const config::ValidConfig& /*given*/, const SftOptions& command) { require_planner(command); }
void write_machine(const check::CheckedMachine& /*checked*/, const std::string& /*file*/, double /*start_s*/) {}
void plan_time(const RunContext& /*on*/, const rank::Datasets& /*datasets*/, const std::string& /*machine_name*/,
               const std::optional<device::OwnMemory>& /*own*/, SettledRun& /*run*/) {}

std::string nearest_fitting(const RunContext& /*on*/, const config::ValidConfig& /*config*/,
                            const rank::Datasets& /*datasets*/, const std::string& /*machine_name*/,
                            const std::optional<device::OwnMemory>& /*own*/) {
  return {};
}

}  // namespace sft::apps
