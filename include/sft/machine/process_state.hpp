// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the system says of a process of this node.

#include <sys/types.h>

#include <filesystem>

namespace sft::machine {

enum class ProcessState {
  runs,     ///< or sleeps, as all that wait do; also where the system does not tell
  stopped,  ///< by a signal, or by a debugger
  blocked,  ///< one of its threads is in a call that nothing interrupts: a disk, a file system, a driver
  ended,    ///< dead, or gone
};

/// Of process `id`. `root` is where /proc is looked for; only tests have another one.
[[nodiscard]] ProcessState process_state(pid_t id, const std::filesystem::path& root = "/");

}  // namespace sft::machine
