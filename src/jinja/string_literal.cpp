// SPDX-License-Identifier: Apache-2.0
#include "jinja/string_literal.hpp"

#include <charconv>

#include "jinja/failure.hpp"
#include "jinja/unicode.hpp"

namespace sft::jinja {

namespace {

/// The character of exactly `count` hexadecimal digits at `position`, which moves behind them.
CodePoint read_hexadecimal(std::string_view literal, std::size_t& position, std::size_t count) {
  const std::string_view digits = literal.substr(position, count);
  CodePoint character = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), character, 16);
  if (digits.size() != count || error != std::errc{} || rest != digits.data() + count || digits[0] == '-') {
    throw Failure("an escape in a string needs " + std::to_string(count) + " hexadecimal digits");
  }
  position += count;
  return character;
}

CodePoint read_octal(std::string_view literal, std::size_t& position) {
  CodePoint character = 0;
  for (int i = 0; i < 3 && position < literal.size() && literal[position] >= '0' && literal[position] <= '7'; ++i) {
    character = character * 8 + (literal[position++] - '0');
  }
  return character;
}

void append_escape(std::string& text, std::string_view literal, std::size_t& position) {
  const char kind = literal[position];
  static constexpr std::string_view letters = "\\'\"abfnrtv";
  static constexpr std::string_view meanings = "\\'\"\a\b\f\n\r\t\v";
  if (const std::size_t found = letters.find(kind); found != std::string_view::npos) {
    ++position;
    text.push_back(meanings[found]);
  } else if (kind == '\n') {
    ++position;
  } else if (kind >= '0' && kind <= '7') {
    append_code_point(text, read_octal(literal, position));
  } else if (kind == 'x' || kind == 'u' || kind == 'U') {
    ++position;
    append_code_point(text, read_hexadecimal(literal, position, kind == 'x' ? 2 : (kind == 'u' ? 4 : 8)));
  } else if (kind == 'N') {
    fail_unsupported("a character by its name (\\N)");
  } else {
    text.push_back('\\');
  }
}

}  // namespace

std::string unescape(std::string_view literal) {
  std::string text;
  for (std::size_t position = 0; position < literal.size();) {
    if (literal[position] != '\\') {
      text.push_back(literal[position++]);
      continue;
    }
    ++position;
    if (position == literal.size()) throw Failure("a string ends in a backslash");
    append_escape(text, literal, position);
  }
  return text;
}

}  // namespace sft::jinja
