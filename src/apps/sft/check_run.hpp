// SPDX-License-Identifier: Apache-2.0
#pragma once
// `sft --check`.

#include <string>

#include "run_context.hpp"

namespace sft::apps {

/// Tries the machine on the mesh of the run (check::check_machine), and with `machine_file` measures it and writes that
/// file, which --machine reads. Collective over the world.
void check_run(const RunContext& on, const std::string& machine_file);

}  // namespace sft::apps
