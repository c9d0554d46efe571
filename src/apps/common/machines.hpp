// SPDX-License-Identifier: Apache-2.0
#pragma once
// The machines that a command line can name.

#include <string>
#include <vector>

#include "sft/simulator/hardware.hpp"

namespace sft::apps {

/// What --machine means: a file of one machine, or a name of share/sft/machines.ini with
/// its devices and nodes ("h200x8x4"). Throws a configuration Error. Not collective.
[[nodiscard]] simulator::Hardware machine_named(const std::string& name);

/// The machines of share/sft/machines.ini.
[[nodiscard]] std::vector<simulator::Hardware> known_machines();

/// Where machines.ini lies: beside this program's folder, in share/sft.
[[nodiscard]] std::string machines_file();

/// Where ops::AbsentGpu::driver_file lies: beside this program's folder, in lib/sft.
[[nodiscard]] std::string absent_driver_file();

}  // namespace sft::apps
