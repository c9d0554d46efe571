// SPDX-License-Identifier: Apache-2.0
#include "sft/core/ensure.hpp"

#include <fmt/core.h>
#include <array>
#include <charconv>
#include <stdexcept>

#include "sft/core/error.hpp"

namespace sft::ensure_detail {

std::string text_of_number(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

void fail(const char* what, std::string_view condition, const std::string& values, const SourceLocation& place) {
  std::string text = fmt::format("internal error: {}", what);
  if (condition != "false") text += fmt::format(": {}", condition);
  if (!values.empty()) text += fmt::format(" ({})", values);
  throw std::logic_error(fmt::format("{}, {} in {}", text, sft::text_of(place), place.function_name()));
}

}  // namespace sft::ensure_detail
