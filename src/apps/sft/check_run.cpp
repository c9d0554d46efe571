// SPDX-License-Identifier: Apache-2.0
#include "check_run.hpp"

#include <chrono>
#include <memory>

#include "planning.hpp"
#include "sft/check/check_machine.hpp"
#include "sft/core/program.hpp"

namespace sft::apps {

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
