// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace sft::text {

Character character_before(std::string_view text, std::size_t place) {
  do --place;
  while (place > 0 && is_continuation(text[place]));
  return character_at(text, place);
}

void append_character(std::string& text, char32_t code_point) {
  const auto push = [&text](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0U | code_point >> 6U);
    push(0x80U | (code_point & 0x3FU));
  } else if (code_point < 0x10000) {
    push(0xE0U | code_point >> 12U);
    push(0x80U | (code_point >> 6U & 0x3FU));
    push(0x80U | (code_point & 0x3FU));
  } else {
    push(0xF0U | code_point >> 18U);
    push(0x80U | (code_point >> 12U & 0x3FU));
    push(0x80U | (code_point >> 6U & 0x3FU));
    push(0x80U | (code_point & 0x3FU));
  }
}

Utf8Part utf8_part_at(std::string_view bytes, std::size_t place) {
  const auto first = static_cast<unsigned char>(bytes[place]);
  if (first < 0x80) return {1, true};
  if (first < 0xC2 || first > 0xF4) return {1, false};
  const std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte has its own limits: no overlong forms, no surrogates, nothing above U+10FFFF.
  unsigned char low = 0x80, high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < size; ++i) {
    if (place + i == bytes.size()) return {i, false};
    const auto byte = static_cast<unsigned char>(bytes[place + i]);
    if (byte < low || byte > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {size, true};
}

std::size_t well_formed_size(std::string_view bytes) {
  constexpr std::uint64_t high_bits = 0x8080808080808080U;
  std::size_t place = 0;
  while (place < bytes.size()) {
    if (place + sizeof(std::uint64_t) <= bytes.size()) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + place, sizeof word);
      if ((word & high_bits) == 0) {
        place += sizeof word;
        continue;
      }
    }
    const Utf8Part part = utf8_part_at(bytes, place);
    if (!part.is_well_formed) break;
    place += part.size;
  }
  return place;
}

std::string replace_ill_formed(std::string_view bytes) {
  std::string text;
  for (std::size_t place = 0; place < bytes.size();) {
    const std::size_t size = well_formed_size(bytes.substr(place));
    text += bytes.substr(place, size);
    place += size;
    if (place == bytes.size()) break;
    text += replacement_character;
    place += utf8_part_at(bytes, place).size;
  }
  return text;
}

}  // namespace sft::text
