// SPDX-License-Identifier: Apache-2.0
#pragma once
// Characters in UTF-8.

#include <cstddef>
#include <string>
#include <string_view>

namespace sft::text {

struct Character {
  char32_t code_point = 0;
  std::size_t size = 0;  ///< in bytes, 1 to 4
};

[[nodiscard]] constexpr bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// The character at `place` of a well-formed text.
[[nodiscard]] inline Character character_at(std::string_view text, std::size_t place) {
  const auto byte = [text, place](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[place + i]));
  };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1FU) << 6U | (byte(1) & 0x3FU), 2};
  if (first < 0xF0) return {(first & 0x0FU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU), 3};
  return {(first & 0x07U) << 18U | (byte(1) & 0x3FU) << 12U | (byte(2) & 0x3FU) << 6U | (byte(3) & 0x3FU), 4};
}

/// The character that ends before `place` > 0 of a well-formed text.
[[nodiscard]] Character character_before(std::string_view text, std::size_t place);

void append_character(std::string& text, char32_t code_point);

/// What begins at `place` of any bytes.
struct Utf8Part {
  std::size_t size = 0;  ///< in bytes, at least 1
  bool is_well_formed = false;
};

/// One character; or the longest beginning of one, or a byte that can begin none: what one U+FFFD replaces (Unicode 15,
/// section 3.9, "substitution of maximal subparts").
[[nodiscard]] Utf8Part utf8_part_at(std::string_view bytes, std::size_t place);

/// The length of the longest well-formed beginning of `bytes`.
[[nodiscard]] std::size_t well_formed_size(std::string_view bytes);

/// The bytes with U+FFFD in place of every ill-formed part.
[[nodiscard]] std::string replace_ill_formed(std::string_view bytes);

inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

}  // namespace sft::text
