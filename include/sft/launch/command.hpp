// SPDX-License-Identifier: Apache-2.0
#pragma once
// Programs that this one starts.

#include <string>
#include <vector>

namespace sft::launch {

/// Runs a program to its end; signals that ask this process to stop are passed on to it. Returns its exit status, 128
/// and the number of the signal that ended it. Throws Error where it cannot be started.
[[nodiscard]] int run_command(const std::vector<std::string>& words);

/// Becomes a program, which keeps this process's number, terminal and signals. Returns only by throwing Error.
[[noreturn]] void become_command(const std::vector<std::string>& words);

}  // namespace sft::launch
