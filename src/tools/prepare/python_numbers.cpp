// SPDX-License-Identifier: Apache-2.0
#include "prepare/python_numbers.hpp"

#include <fmt/core.h>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <stdexcept>

namespace sft::prepare {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t max_digits = 4300;
constexpr double infinity = std::numeric_limits<double>::infinity();

bool begins_number(char c) { return c == '-' || (c >= '0' && c <= '9') || c == 'N' || c == 'I'; }
bool is_of_number(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' || c == '.';
}

/// Whether the number is valid JSON once its exponent is small.
bool is_number_of_json(std::string token) {
  if (const std::size_t mark = token.find_first_of("eE"); mark != std::string::npos) {
    const std::size_t digits =
        mark + (token.size() > mark + 1 && (token[mark + 1] == '-' || token[mark + 1] == '+') ? 2 : 1);
    if (digits == token.size() || token.find_first_not_of("0123456789", digits) != std::string::npos) return false;
    token.resize(mark);
  }
  const std::size_t begin = token.starts_with('-') ? 1 : 0;
  const std::size_t point = token.find('.');
  const std::string whole = token.substr(begin, point == std::string::npos ? point : point - begin);
  const auto are_digits = [](const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  };
  return are_digits(whole) && (whole.size() == 1 || whole.front() != '0') &&
         (point == std::string::npos || are_digits(token.substr(point + 1)));
}

/// The value of a token that JSON's library cannot read, though Python's can.
std::optional<Json> odd_value(const std::string& token) {
  if (token == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (token == "Infinity") return infinity;
  if (token == "-Infinity") return -infinity;
  const double number = std::strtod(token.c_str(), nullptr);
  if (!std::isinf(number) || !is_number_of_json(token)) return std::nullopt;
  if (token.find_first_of(".eE") == std::string::npos) return integer_of(token);
  return number;
}

}  // namespace

Json integer_of(const std::string& digits) {
  if (digits.size() > max_digits + (digits.starts_with('-') ? 1 : 0)) {
    throw std::invalid_argument(fmt::format("an integer has more than {} digits", max_digits));
  }
  return Json::binary({digits.begin(), digits.end()});
}

ParsableText without_odd_numbers(std::string_view text) {
  ParsableText parsable;
  bool in_string = false;
  std::size_t num_numbers = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!in_string && begins_number(c)) {
      std::size_t end = i;
      while (end < text.size() && is_of_number(text[end])) ++end;
      std::string token(text.substr(i, end - i));
      if (std::optional<Json> value = odd_value(token)) {
        parsable.odd.emplace(num_numbers, std::move(*value));
        token = "0";
      }
      parsable.text += token;
      ++num_numbers;
      i = end - 1;
      continue;
    }
    if (c == '"') in_string = !in_string;
    parsable.text += c;
    if (in_string && c == '\\' && i + 1 < text.size()) parsable.text += text[++i];
  }
  return parsable;
}

}  // namespace sft::prepare
