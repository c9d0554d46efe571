// SPDX-License-Identifier: Apache-2.0
#include "text/byte_characters.hpp"

#include "text/utf8.hpp"

namespace sft::text {

namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> make_code_points() {
  std::array<char32_t, 256> code_points{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) code_points[byte] = stands_for_itself(byte) ? byte : next++;
  return code_points;
}

constexpr std::array<char32_t, 256> code_points = make_code_points();

}  // namespace

const std::array<std::string, 256>& byte_characters() {
  static const std::array<std::string, 256> characters = [] {
    std::array<std::string, 256> made;
    for (std::size_t byte = 0; byte < 256; ++byte) append_character(made[byte], code_points[byte]);
    return made;
  }();
  return characters;
}

std::optional<unsigned char> byte_of_character(char32_t code_point) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (code_points[byte] == code_point) return static_cast<unsigned char>(byte);
  }
  return std::nullopt;
}

std::string to_byte_characters(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) text += byte_characters()[static_cast<unsigned char>(byte)];
  return text;
}

}  // namespace sft::text
