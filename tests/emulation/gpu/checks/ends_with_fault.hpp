// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace sft::test {

/// Runs `action` in a copy of this process. Returns what it wrote to standard error when it ended as
/// emulation::fault() ends a program, else a line that says how it ended.
[[nodiscard]] std::string fault_of(const std::function<void()>& action);

}  // namespace sft::test
