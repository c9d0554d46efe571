// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON that programs print for others.

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <string>

namespace sft::apps {

/// The value as text, which is printable: control characters are escaped as JSON does it, bytes that are no UTF-8
/// become U+FFFD. `indent`: blanks for each level, -1: one line.
[[nodiscard]] inline std::string json_text(const nlohmann::ordered_json& value, int indent = 2) {
  const std::string text = value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  // The library escapes those below U+0020 alone; U+007F to U+009F (in UTF-8 from C2 80 on) are controls, too.
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto code = static_cast<unsigned char>(text[i]);
    const bool begins_pair = code == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (begins_pair) code = static_cast<unsigned char>(text[++i]);
    if (begins_pair || code == 0x7F) {
      escaped += fmt::format("\\u{:04x}", code);
    } else {
      escaped.push_back(text[i]);
    }
  }
  return escaped;
}

}  // namespace sft::apps
