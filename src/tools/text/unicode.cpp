// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.hpp"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <vector>

#include "text/utf8.hpp"

namespace sft::text {

namespace {

constexpr char32_t num_code_points = 0x110000;

constexpr UnicodeAddition additions[] = {
#include "text/unicode_additions.inc"
};

bool was_there_in(char32_t code_point, std::uint8_t version) {
  UVersionInfo age = {};
  u_charAge(static_cast<UChar32>(code_point), age);
  return age[0] != 0 && age[0] <= version;
}

std::uint32_t category_mask(char32_t code_point) { return U_GET_GC_MASK(static_cast<UChar32>(code_point)); }

/// The category of a character that only Unicode 15 or 16 has; empty for any other.
std::string_view added_category(char32_t code_point) {
  const auto* const found =
      std::find_if(std::begin(additions), std::end(additions), [code_point](const UnicodeAddition& addition) {
        return code_point >= addition.first && code_point <= addition.last;
      });
  return found == std::end(additions) ? "" : found->category;
}

/// Of every code point.
std::vector<CharacterClass> make_classes() {
  std::vector<CharacterClass> classes(num_code_points, CharacterClass::other);
  for (char32_t c = 0; c < num_code_points; ++c) {
    const std::uint32_t category = category_mask(c);
    if ((category & U_GC_L_MASK) != 0) classes[c] = CharacterClass::letter;
    if ((category & U_GC_N_MASK) != 0) classes[c] = CharacterClass::number;
    if (is_space(c)) classes[c] = CharacterClass::space;
  }
  for (const UnicodeAddition& addition : additions) {
    const char major = addition.category[0];
    if (major != 'L' && major != 'N') continue;
    std::fill(classes.begin() + static_cast<std::ptrdiff_t>(addition.first),
              classes.begin() + static_cast<std::ptrdiff_t>(addition.last) + 1,
              major == 'L' ? CharacterClass::letter : CharacterClass::number);
  }
  return classes;
}

/// Letters with a lower case of their own that Unicode has got since version 14, up to 17, and where it is relative to
/// them.
struct CasePair {
  char32_t first, last;
  std::int32_t to_lower;
};
constexpr std::array<CasePair, 10> added_cases = {{{0x1C89, 0x1C89, 1},
                                                   {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
                                                   {0xA7CC, 0xA7CC, 1},
                                                   {0xA7DA, 0xA7DA, 1},
                                                   {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
                                                   {0x10D50, 0x10D65, 0x20},
                                                   {0xA7CE, 0xA7CE, 1},
                                                   {0xA7D2, 0xA7D2, 1},
                                                   {0xA7D4, 0xA7D4, 1},
                                                   {0x16EA0, 0x16EB8, 0x1B}}};

}  // namespace

std::span<const UnicodeAddition> unicode_additions() { return additions; }

bool is_space(char32_t c) {
  if (c < 0x1680) return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0;
  return c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_number(char32_t code_point) { return class_of(code_point) == CharacterClass::number; }

bool is_word(char32_t code_point) {
  if (code_point < 0x80)
    return class_of(code_point) == CharacterClass::letter || is_number(code_point) || code_point == '_';
  const auto c = static_cast<UChar32>(code_point);
  if (u_hasBinaryProperty(c, UCHAR_ALPHABETIC) || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL)) return true;
  if ((category_mask(code_point) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0) return true;
  const std::string_view added = added_category(code_point);
  return added.starts_with('L') || added.starts_with('M') || added == "Nd" || added == "Nl" || added == "Pc";
}

bool is_punctuation(char32_t code_point) {
  // Two characters that have changed their category since.
  if (code_point == 0x166D || code_point == 0x111C9) return true;
  return (category_mask(code_point) & U_GC_P_MASK) != 0 && was_there_in(code_point, 8);
}

bool is_mark(char32_t code_point) {
  // Three characters that have changed their category since.
  if (code_point == 0x1CF2 || code_point == 0x1CF3) return true;
  if (code_point == 0x111C9) return false;
  return (category_mask(code_point) & U_GC_M_MASK) != 0 && was_there_in(code_point, 9);
}

void append_lower_case(std::string& text, char32_t code_point) {
  if (code_point == 0x130) {  // I with dot above: the only one whose lower case is two characters
    text += "i\xCC\x87";
    return;
  }
  for (const CasePair& pair : added_cases) {
    if (code_point < pair.first || code_point > pair.last) continue;
    append_character(text, static_cast<char32_t>(static_cast<std::int32_t>(code_point) + pair.to_lower));
    return;
  }
  append_character(text, static_cast<char32_t>(u_tolower(static_cast<UChar32>(code_point))));
}

CharacterClass class_of_non_ascii(char32_t code_point) {
  static const std::vector<CharacterClass> classes = make_classes();
  return classes[code_point];
}

}  // namespace sft::text
