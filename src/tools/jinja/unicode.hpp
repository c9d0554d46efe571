// SPDX-License-Identifier: Apache-2.0
#pragma once
// What Python knows of characters. Positions are bytes of UTF-8; bytes that are no UTF-8 count as one character each.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sft::jinja {

using CodePoint = std::int32_t;

/// The character at `position`, which moves behind it; -1 for a byte that is no UTF-8.
[[nodiscard]] CodePoint next_code_point(std::string_view text, std::size_t& position);
/// The beginning of the character that ends before `position` > 0.
[[nodiscard]] std::size_t previous_position(std::string_view text, std::size_t position);
/// A character as UTF-8.
void append_code_point(std::string& text, CodePoint character);

/// Number of characters: Python's len.
[[nodiscard]] std::int64_t count_characters(std::string_view text);
/// The position of the character with that index, 0 <= index <= number of characters.
[[nodiscard]] std::size_t position_of_character(std::string_view text, std::int64_t index);

/// str.isspace of one character.
[[nodiscard]] bool is_space(CodePoint character);
/// Whether repr prints it as it is.
[[nodiscard]] bool is_printable(CodePoint character);
/// Part of an identifier: a letter, a number or an underscore.
[[nodiscard]] bool is_word(CodePoint character);

enum class Case : std::uint8_t { upper, lower, title };
/// Full case mapping of a whole text by Unicode's rules without a language (a final sigma is lowered as one). Title
/// raises the first character alone and keeps the rest.
[[nodiscard]] std::string map_case(std::string_view text, Case to);

}  // namespace sft::jinja
