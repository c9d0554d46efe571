// SPDX-License-Identifier: Apache-2.0
#include "jinja/format_specification.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "jinja/strings.hpp"

namespace sft::jinja {

namespace {

constexpr std::int64_t max_precision = 300;

std::string group_thousands(const std::string& digits) {
  const std::size_t whole = std::min(digits.find('.'), digits.size());
  std::string grouped = digits.substr(whole);
  for (std::size_t i = whole; i > 0;) {
    const std::size_t begin = i > 3 ? i - 3 : 0;
    grouped.insert(0, digits.substr(begin, i - begin));
    if (begin > 0) grouped.insert(0, ",");
    i = begin;
  }
  return grouped;
}

/// The digits of a number without its sign.
std::string digits_of(const Value& value, const Specification& specification) {
  std::array<char, 700> buffer{};
  const char kind = specification.kind;
  if (kind == 'd' || kind == 'x' || kind == 'X' || kind == 'o') {
    const std::int64_t number = *as_integer(value);
    const std::uint64_t size = number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
    const char* format = kind == 'd' ? "%llu" : (kind == 'x' ? "%llx" : (kind == 'X' ? "%llX" : "%llo"));
    std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned long long>(size));
    std::string digits = buffer.data();
    if (specification.precision && digits.size() < static_cast<std::size_t>(*specification.precision)) {
      digits.insert(0, static_cast<std::size_t>(*specification.precision) - digits.size(), '0');
    }
    if (specification.is_alternate && kind != 'd') digits.insert(0, std::string("0") + kind);
    return digits;
  }
  const double number = std::fabs(*as_number(value));
  const std::string format = std::string(specification.is_alternate ? "%#.*" : "%.*") + kind;
  // -Wformat-nonliteral is not part of the warnings: the kind is one of f F e E g G.
  std::snprintf(buffer.data(), buffer.size(), format.c_str(), static_cast<int>(specification.precision.value_or(6)),
                number);
  return buffer.data();
}

bool is_negative(const Value& value) {
  const auto integer = as_integer(value);
  return integer ? *integer < 0 : std::signbit(*as_number(value)) && !std::isnan(*as_number(value));
}

}  // namespace

std::optional<std::int64_t> read_number(std::string_view text, std::size_t& position) {
  std::int64_t number = 0;
  const char* const begin = text.data() + position;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) fail_unsupported("so wide a format");
  if (end == begin || error != std::errc{} || *begin == '-') return std::nullopt;
  position += static_cast<std::size_t>(end - begin);
  return number;
}

std::string number_text(const Value& value, const Specification& specification) {
  if (specification.precision.value_or(0) > max_precision) fail_unsupported("so precise a format");
  std::string digits = digits_of(value, specification);
  if (specification.has_comma) digits = group_thousands(digits);
  std::string sign;
  if (is_negative(value)) {
    sign = "-";
  } else if (specification.sign != '-') {
    sign = std::string(1, specification.sign);
  }
  const auto size = static_cast<std::int64_t>(sign.size() + digits.size());
  if (specification.alignment == '=' && size < specification.width) {
    if (specification.has_comma) fail_unsupported("a format with both zeros and commas");
    if (specification.width > 10000) fail_unsupported("so wide a format");
    std::string filled;
    for (std::int64_t i = size; i < specification.width; ++i) filled += specification.fill;
    digits.insert(0, filled);
  }
  return sign + digits;
}

TextRef align(Heap& heap, const TextRef& text, const Specification& specification, char otherwise) {
  const char alignment = specification.alignment == '\0' ? otherwise : specification.alignment;
  const std::int64_t missing = specification.width - count_characters(text->bytes);
  if (missing <= 0) return text;
  if (alignment == '^') {
    const TextRef left = pad(heap, text, specification.width - (missing + 1) / 2, specification.fill, Side::left);
    return pad(heap, left, specification.width, specification.fill, Side::right);
  }
  return pad(heap, text, specification.width, specification.fill, alignment == '<' ? Side::right : Side::left);
}

TextRef shorten(Heap& heap, const TextRef& text, const Specification& specification) {
  if (!specification.precision) return text;
  return cut_text(&heap, text, 0, position_of_character(text->bytes, *specification.precision));
}

}  // namespace sft::jinja
