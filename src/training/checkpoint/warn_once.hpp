// SPDX-License-Identifier: Apache-2.0
#pragma once
// Warnings about files that a program opens more than once.

#include <string>

namespace sft::checkpoint {

/// log_warning, unless this process has said the same before.
void warn_once(const std::string& line);

}  // namespace sft::checkpoint
