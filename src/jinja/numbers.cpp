// SPDX-License-Identifier: Apache-2.0
#include "jinja/numbers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "jinja/failure.hpp"
#include "jinja/unicode.hpp"

namespace sft::jinja {

namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty()) {
    std::size_t next = 0;
    if (!is_space(next_code_point(text, next))) break;
    text.remove_prefix(next);
  }
  while (!text.empty()) {
    const std::size_t previous = previous_position(text, text.size());
    std::size_t next = previous;
    if (!is_space(next_code_point(text, next))) break;
    text = text.substr(0, previous);
  }
  return text;
}

/// Without the single underscores that may stand between digits; nothing if one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string digits;
  const auto is_digit_or_letter = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits.push_back(text[i]);
    } else if (i == 0 || i + 1 == text.size() || !is_digit_or_letter(text[i - 1]) || !is_digit_or_letter(text[i + 1])) {
      return std::nullopt;
    }
  }
  return digits;
}

}  // namespace

std::optional<double> parse_float(std::string_view text) {
  const std::optional<std::string> digits = without_underscores(trim(text));
  if (!digits || digits->empty()) return std::nullopt;
  std::string_view rest = *digits;
  if (rest.front() == '+') rest.remove_prefix(1);
  if (rest.empty() || rest.front() == '+') return std::nullopt;
  std::string_view unsigned_part = rest.front() == '-' && rest.data() == digits->data() ? rest.substr(1) : rest;
  if (unsigned_part.empty() || unsigned_part.front() == '-') return std::nullopt;
  const bool is_word = std::isalpha(static_cast<unsigned char>(unsigned_part.front())) != 0;
  if (is_word) {
    std::string word(unsigned_part);
    std::transform(word.begin(), word.end(), word.begin(), [](char c) { return static_cast<char>(c | 0x20); });
    if (word != "inf" && word != "infinity" && word != "nan") return std::nullopt;
  } else if (unsigned_part.find_first_not_of("0123456789.eE+-") != std::string_view::npos) {
    return std::nullopt;
  }
  const std::string number(rest);
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  return end == number.c_str() + number.size() ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
  if (base != 2 && base != 8 && base != 10 && base != 16) fail_unsupported("an integer to that base");
  const std::optional<std::string> digits = without_underscores(trim(text));
  if (!digits) return std::nullopt;
  std::string_view rest = *digits;
  const bool is_negative = rest.starts_with('-');
  if (is_negative || rest.starts_with('+')) rest.remove_prefix(1);
  const char prefix = base == 16 ? 'x' : (base == 8 ? 'o' : (base == 2 ? 'b' : '\0'));
  if (prefix != '\0' && rest.size() > 2 && rest[0] == '0' && (rest[1] | 0x20) == prefix) rest.remove_prefix(2);
  if (rest.empty() || rest.front() == '-') return std::nullopt;
  const std::string number = (is_negative ? "-" : "") + std::string(rest);
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), value, static_cast<int>(base));
  if (error == std::errc::result_out_of_range) fail_unsupported("an integer beyond 64 bits");
  if (error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
  return value;
}

double round_to(double number, int precision) {
  if (!std::isfinite(number)) return number;
  if (precision < 0) {
    const double scale = std::pow(10.0, -precision);
    return std::nearbyint(number / scale) * scale;
  }
  std::array<char, 700> digits{};
  std::snprintf(digits.data(), digits.size(), "%.*f", precision, number);
  return std::strtod(digits.data(), nullptr);
}

}  // namespace sft::jinja
