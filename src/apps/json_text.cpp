// SPDX-License-Identifier: Apache-2.0
#include "json_text.hpp"

#include <fmt/core.h>

namespace sft::apps {

std::string json_text(const nlohmann::ordered_json& value, int indent) {
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
