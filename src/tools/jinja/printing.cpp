// SPDX-License-Identifier: Apache-2.0
// How values print.

#include <fmt/core.h>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "jinja/evaluator.hpp"
#include "jinja/unicode.hpp"

namespace sft::jinja {

namespace {

/// The escape that repr writes for a character; empty if it writes the character.
std::string repr_escape(CodePoint character, unsigned char byte, char quote) {
  if (character == quote || character == '\\') return std::string("\\") + static_cast<char>(character);
  if (character == '\n') return "\\n";
  if (character == '\r') return "\\r";
  if (character == '\t') return "\\t";
  if (is_printable(character)) return {};
  if (character < 0) return fmt::format("\\x{:02x}", byte);
  if (character < 0x100) return fmt::format("\\x{:02x}", character);
  return character < 0x10000 ? fmt::format("\\u{:04x}", character) : fmt::format("\\U{:08x}", character);
}

void append_text_repr(TextBuilder& builder, const Text& text) {
  const bool has_single = text.bytes.find('\'') != std::string::npos;
  const char quote = has_single && text.bytes.find('"') == std::string::npos ? '"' : '\'';
  if (text.is_markup) builder.append("Markup(", tag_at(text, 0));
  builder.append(std::string(1, quote), tag_at(text, 0));
  std::size_t done = 0;
  for (std::size_t position = 0; position < text.bytes.size();) {
    const std::size_t begin = position;
    const CodePoint character = next_code_point(text.bytes, position);
    const std::string escape = repr_escape(character, static_cast<unsigned char>(text.bytes[begin]), quote);
    if (escape.empty()) continue;
    builder.append(text, done, begin);
    builder.append(escape, tag_at(text, begin));
    done = position;
  }
  builder.append(text, done, text.bytes.size());
  builder.append(std::string(1, quote), tag_at(text, text.bytes.empty() ? 0 : text.bytes.size() - 1));
  if (text.is_markup) builder.append(")", tag_at(text, 0));
}

void append_repr(TextBuilder& builder, const Value& value);

void append_items(TextBuilder& builder, const List& list) {
  const Tag tag{.source = list.source};
  static constexpr std::array<std::string_view, 5> openings = {"[", "(", "dict_keys([", "dict_values([",
                                                               "dict_items(["};
  static constexpr std::array<std::string_view, 5> closings = {"]", ")", "])", "])", "])"};
  const auto kind = static_cast<std::size_t>(list.kind);
  builder.append(openings[kind], tag);
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) builder.append(", ", tag);
    append_repr(builder, list.items[i]);
  }
  if (list.kind == List::Kind::tuple && list.items.size() == 1) builder.append(",", tag);
  builder.append(closings[kind], tag);
}

void append_dict(TextBuilder& builder, const Dict& dict) {
  const Tag tag{.source = dict.source};
  builder.append("{", tag);
  bool is_first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!is_first) builder.append(", ", tag);
    is_first = false;
    append_repr(builder, key);
    builder.append(": ", tag);
    append_repr(builder, value);
  }
  builder.append("}", tag);
}

std::string range_text(const Range& range) {
  if (range.step == 1) return fmt::format("range({}, {})", range.start, range.stop);
  return fmt::format("range({}, {}, {})", range.start, range.stop, range.step);
}

void append_repr(TextBuilder& builder, const Value& value) {
  if (const Text* text = value.text()) return append_text_repr(builder, *text);
  if (const List* list = value.list()) return append_items(builder, *list);
  if (const Dict* dict = value.dict()) return append_dict(builder, *dict);
  if (const bool* truth = value.get<bool>()) return builder.append(*truth ? "True" : "False");
  if (const auto* number = value.get<std::int64_t>()) return builder.append(std::to_string(*number));
  if (const auto* number = value.get<double>()) return builder.append(float_text(*number));
  if (const auto* number = value.get<BigIntegerRef>()) return builder.append((*number)->digits);
  if (const auto* range = value.get<RangeRef>()) return builder.append(range_text(**range));
  if (value.is_none()) return builder.append("None");
  if (value.is_undefined()) return builder.append("Undefined");
  fail_unsupported(fmt::format("printing a value of type '{}'", type_name(value)));
}

}  // namespace

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::array<char, 32> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::scientific).ptr;
  std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  std::string sign;
  if (text.front() == '-') {
    sign = "-";
    text.remove_prefix(1);
  }
  const std::size_t mark = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(mark + 1)).c_str());
  std::string digits(1, text[0]);
  if (mark > 2) digits += text.substr(2, mark - 2);
  const int num_digits = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string mantissa = digits.substr(0, 1);
    if (num_digits > 1) mantissa += "." + digits.substr(1);
    return fmt::format("{}{}e{}{:02}", sign, mantissa, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return fmt::format("{}0.{}{}", sign, std::string(static_cast<std::size_t>(-exponent - 1), '0'), digits);
  if (exponent >= num_digits - 1) {
    return fmt::format("{}{}{}.0", sign, digits, std::string(static_cast<std::size_t>(exponent - num_digits + 1), '0'));
  }
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  return fmt::format("{}{}.{}", sign, digits.substr(0, whole), digits.substr(whole));
}

TextRef to_repr(Evaluator& evaluator, const Value& value) {
  TextBuilder builder(&evaluator.heap());
  append_repr(builder, value);
  return builder.take();
}

TextRef to_text(Evaluator& evaluator, const Value& value) {
  if (const auto* text = value.get<TextRef>()) return *text;
  if (evaluator.has_values_only()) {
    if (value.is_undefined()) throw Failure(undefined_message(value));
    if (value.is_none()) throw Failure("a value that it prints is null");
  }
  if (value.is_undefined()) return make_text(&evaluator.heap(), "");
  return to_repr(evaluator, value);
}

}  // namespace sft::jinja
