// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace sft::emulation {

/// Where in the kernel the access is made that is checked now: set before the check.
extern const void* access_address;
/// ", rms_norm.cu:41" from the program's debug information, or nothing where that or addr2line is missing.
[[nodiscard]] std::string source_line_of_access();

}  // namespace sft::emulation
