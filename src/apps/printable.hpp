// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text of unknown origin, made safe for a terminal.

#include <string>
#include <string_view>

namespace sft::apps {

/// Valid UTF-8 stays; control characters and stray bytes come out as \xNN, a newline as \n unless it is kept.
[[nodiscard]] std::string printable(std::string_view text, bool keep_newlines);

}  // namespace sft::apps
