// SPDX-License-Identifier: Apache-2.0
#pragma once
// A template's text as tokens.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sft::jinja {

struct Token {
  enum class Kind : std::uint8_t {
    data,            // text outside of tags, white space control applied
    variable_begin,  // {{
    variable_end,
    block_begin,  // {%
    block_end,
    name,
    string,  // text is its value
    integer,
    floating,
    symbol,  // an operator or bracket
    end,
  };
  Kind kind = Kind::end;
  int line = 0;
  std::string text;
  std::int64_t integer = 0;
  double floating = 0;
};

/// The tokens of `source`, Kind::end the last. White space: a newline after a block or a comment goes, blanks before a
/// block or comment that begins its line go, `-` takes all white space on its side, `+` keeps it, and the last newline
/// of the source goes. Throws a TemplateError that names the line.
[[nodiscard]] std::vector<Token> tokenize(std::string_view source);

}  // namespace sft::jinja
