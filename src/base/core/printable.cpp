// SPDX-License-Identifier: Apache-2.0
#include "sft/core/log.hpp"

#include <fmt/core.h>

namespace sft {

namespace {

/// Bytes of the UTF-8 character that `text` begins with, 0 if it begins with none (overlong forms are let through).
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80                      ? 1
                             : byte(0) >= 0xF0 && byte(0) < 0xF5 ? 4
                             : byte(0) >= 0xE0 && byte(0) < 0xF0 ? 3
                             : byte(0) >= 0xC2 && byte(0) < 0xE0 ? 2
                                                                 : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

bool is_control(std::string_view character) {
  const auto byte = static_cast<unsigned char>(character[0]);
  const bool is_c1 = byte == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
  return byte < 0x20 || byte == 0x7F || is_c1;
}

}  // namespace

std::string printable(std::string_view text, bool keep_layout) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (text[0] == '\n' || (keep_layout && text[0] == '\t')) {
      out += keep_layout ? text.substr(0, 1) : "\\n";
    } else if (length > 0 && !is_control(text.substr(0, length))) {
      out += text.substr(0, length);
      text.remove_prefix(length - 1);
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    }
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace sft
