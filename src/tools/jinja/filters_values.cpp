// SPDX-License-Identifier: Apache-2.0
// Filters of single values.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

#include "jinja/arguments.hpp"
#include "jinja/filters.hpp"
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

/// float(text); nothing where Python raises ValueError.
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

/// int(text); nothing where Python raises ValueError. Fails for numbers beyond 64 bits.
std::optional<std::int64_t> parse_integer(std::string_view text) {
  const std::optional<std::string> digits = without_underscores(trim(text));
  if (!digits) return std::nullopt;
  std::string_view rest = *digits;
  const bool is_negative = rest.starts_with('-');
  if (is_negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty() || rest.front() == '-') return std::nullopt;
  const std::string number = (is_negative ? "-" : "") + std::string(rest);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc::result_out_of_range) fail_unsupported("an integer beyond 64 bits");
  if (error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
  return value;
}

}  // namespace

Value filter_default(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters parameters("default", arguments, {"default_value", "boolean"});
  const bool is_replaced = input.is_undefined() || (parameters.truth(1, false) && !is_true(input));
  if (!is_replaced) return input;
  return parameters[0] == nullptr ? Value(make_text(&evaluator.heap(), "")) : *parameters[0];
}

Value filter_int(Evaluator&, const Value& input, const Arguments& arguments) {
  const Parameters parameters("int", arguments, {"default", "base"});
  if (parameters.has(1)) fail_unsupported("the argument 'base' of the filter 'int'");
  Value otherwise = parameters[0] == nullptr ? Value(std::int64_t{0}) : *parameters[0];
  if (input.is_undefined()) throw Failure(undefined_message(input));
  if (const auto number = as_integer(input)) return *number;
  if (input.get<BigIntegerRef>() != nullptr) return input;
  std::optional<double> number;
  if (const Text* text = input.text()) {
    if (const auto integer = parse_integer(text->bytes)) return *integer;
    number = parse_float(text->bytes);
  } else if (const auto* value = input.get<double>()) {
    number = *value;
  }
  if (!number || !std::isfinite(*number)) return otherwise;
  if (std::fabs(*number) >= 9.2e18) fail_unsupported("an integer beyond 64 bits");
  return static_cast<std::int64_t>(*number);
}

Value filter_items(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("items", arguments, {});
  if (!input.is_undefined() && input.dict() == nullptr) throw Failure("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  if (const Dict* dict = input.dict()) {
    for (const auto& [key, value] : dict->entries)
      pairs.push_back(evaluator.make_list(List::Kind::tuple, {key, value}));
  }
  return std::make_shared<Generator>(&evaluator.heap(), std::move(pairs));
}

Value filter_length(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Parameters none("length", arguments, {});
  if (const Text* text = input.text()) evaluator.heap().step(text->bytes.size() / 16);
  return length_of(input);
}

}  // namespace sft::jinja
