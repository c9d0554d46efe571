// SPDX-License-Identifier: Apache-2.0
#pragma once
// Classes of characters. The tokenizers' rules refer to several versions of Unicode, because the parts of the library
// that they were written for do; each function says which one it means.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sft::text {

/// White_Space: the same 25 characters since Unicode 6.3.
[[nodiscard]] bool is_space(char32_t code_point);
/// Category N of Unicode 16.
[[nodiscard]] bool is_number(char32_t code_point);
/// \w of Unicode Technical Standard 18: alphabetic, marks, decimal digits, connectors, joiners.
[[nodiscard]] bool is_word(char32_t code_point);
/// Category P of Unicode 8, where the rules for punctuation stopped.
[[nodiscard]] bool is_punctuation(char32_t code_point);
/// Category M of Unicode 9, where normalization stopped.
[[nodiscard]] bool is_mark(char32_t code_point);
/// ASCII characters that are neither letters, digits, blanks nor controls.
[[nodiscard]] constexpr bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/// The lower case of one character, without regard to its neighbours.
void append_lower_case(std::string& text, char32_t code_point);

/// What splitters ask of every character, in one look-up.
enum class CharacterClass : std::uint8_t { other, letter, number, space };
[[nodiscard]] CharacterClass class_of_non_ascii(char32_t code_point);
[[nodiscard]] constexpr CharacterClass class_of(char32_t c) {
  if (c >= 0x80) return class_of_non_ascii(c);
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharacterClass::letter;
  if (c >= '0' && c <= '9') return CharacterClass::number;
  if (c == ' ' || (c >= '\t' && c <= '\r')) return CharacterClass::space;
  return CharacterClass::other;
}

/// A run of characters of one category that Unicode 16 has and Unicode 14 has not.
struct UnicodeAddition {
  char32_t first = 0;
  char32_t last = 0;
  std::string_view category;  ///< two letters, as "Lo"
};
[[nodiscard]] std::span<const UnicodeAddition> unicode_additions();

/// A well-formed text for what knows Unicode 14 alone: each character that is younger, or has become alphabetic since,
/// is replaced by the nearest older one of the same category of Unicode 16, as alphabetic and as many bytes long. So
/// positions stay, classes of characters mean what they mean over Unicode 16, and blocks nearly so. Empty if there is
/// nothing to replace.
[[nodiscard]] std::string replace_young_characters(std::string_view text);

}  // namespace sft::text
