// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text of unknown origin, made safe for a terminal.

#include <string>
#include <string_view>

namespace sft {

/// Valid UTF-8 stays; control characters and stray bytes come out as \xNN, a newline as \n. `keep_layout`: newlines and
/// tabs stay. What is printable already stays as it is.
[[nodiscard]] std::string printable(std::string_view text, bool keep_layout);

}  // namespace sft
