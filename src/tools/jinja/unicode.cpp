// SPDX-License-Identifier: Apache-2.0
#include "jinja/unicode.hpp"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/stringoptions.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "jinja/failure.hpp"

namespace sft::jinja {

namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string map_ascii(std::string_view text, Case to) {
  std::string mapped(text);
  bool is_first = true;
  for (char& c : mapped) {
    if ((to == Case::upper || (to == Case::title && is_first)) && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    if (to == Case::lower && c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    is_first = false;
  }
  return mapped;
}

}  // namespace

CodePoint next_code_point(std::string_view text, std::size_t& position) {
  const auto first = static_cast<unsigned char>(text[position]);
  const std::size_t begin = position++;
  if (first < 0x80) return first;
  const int size = first >= 0xF0 ? 4 : (first >= 0xE0 ? 3 : 2);
  if (first < 0xC2 || first > 0xF4 || begin + size > text.size()) return -1;
  CodePoint character = first & (0x7F >> size);
  for (int i = 1; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[begin + i]);
    if ((byte & 0xC0) != 0x80) return -1;
    character = (character << 6) | (byte & 0x3F);
  }
  const bool is_too_long = (size == 3 && character < 0x800) || (size == 4 && character < 0x10000);
  if (is_too_long || character > 0x10FFFF || (character >= 0xD800 && character <= 0xDFFF)) return -1;
  position = begin + size;
  return character;
}

std::size_t previous_position(std::string_view text, std::size_t position) {
  for (std::size_t back = std::min<std::size_t>(4, position); back > 1; --back) {
    std::size_t end = position - back;
    if (next_code_point(text, end) >= 0x80 && end == position) return position - back;
  }
  return position - 1;
}

void append_code_point(std::string& text, CodePoint character) {
  const auto push = [&](int byte) { text.push_back(static_cast<char>(byte)); };
  const auto push_tail = [&](int shift) { push(0x80 | ((character >> shift) & 0x3F)); };
  if (character < 0 || character > 0x10FFFF || (character >= 0xD800 && character <= 0xDFFF)) {
    throw Failure("a string holds what is no character");
  }
  if (character < 0x80) {
    push(character);
  } else if (character < 0x800) {
    push(0xC0 | (character >> 6));
    push_tail(0);
  } else if (character < 0x10000) {
    push(0xE0 | (character >> 12));
    push_tail(6);
    push_tail(0);
  } else {
    push(0xF0 | (character >> 18));
    push_tail(12);
    push_tail(6);
    push_tail(0);
  }
}

std::int64_t count_characters(std::string_view text) {
  std::int64_t count = 0;
  for (std::size_t position = 0; position < text.size(); ++count) (void)next_code_point(text, position);
  return count;
}

std::size_t position_of_character(std::string_view text, std::int64_t index) {
  std::size_t position = 0;
  for (; index > 0 && position < text.size(); --index) (void)next_code_point(text, position);
  return position;
}

bool is_space(CodePoint c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(CodePoint c) {
  if (c < 0) return false;
  if (c < 0x7F) return c >= 0x20;
  constexpr std::uint32_t hidden = U_GC_C_MASK | U_GC_Z_MASK;
  return (U_GET_GC_MASK(c) & hidden) == 0;
}

bool is_word(CodePoint c) {
  if (c < 0) return false;
  return c == '_' || (U_GET_GC_MASK(c) & U_GC_L_MASK) != 0 || u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

std::string map_case(std::string_view text, Case to) {
  if (is_ascii(text)) return map_ascii(text, to);
  std::string mapped;
  icu::StringByteSink<std::string> sink(&mapped);
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  UErrorCode status = U_ZERO_ERROR;
  switch (to) {
    case Case::upper:
      icu::CaseMap::utf8ToUpper("", 0, piece, sink, nullptr, status);
      break;
    case Case::lower:
      icu::CaseMap::utf8ToLower("", 0, piece, sink, nullptr, status);
      break;
    case Case::title:
      icu::CaseMap::utf8ToTitle("",
                                U_TITLECASE_WHOLE_STRING | U_TITLECASE_NO_LOWERCASE | U_TITLECASE_NO_BREAK_ADJUSTMENT,
                                nullptr, piece, sink, nullptr, status);
      break;
  }
  if (U_FAILURE(status)) throw Failure("the case of a text cannot be changed");
  return mapped;
}

}  // namespace sft::jinja
