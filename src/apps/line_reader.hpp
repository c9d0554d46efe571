// SPDX-License-Identifier: Apache-2.0
#pragma once
// Lines that a person types, or a program writes.

#include <optional>
#include <string>

namespace sft::apps {

/// The next line of standard input without its end; none at the end of it. On a terminal `prompt` stands before it, and
/// it can be edited, with the lines before it as history.
[[nodiscard]] std::optional<std::string> read_line(const char* prompt);

}  // namespace sft::apps
