// SPDX-License-Identifier: Apache-2.0
#include "sft/core/error.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "sft/core/ensure.hpp"
#include "sft/core/log.hpp"

namespace sft {

namespace {

std::string compose(const std::string& problem, const std::string& why, const std::string& what_to_do) {
  std::string message = problem;
  if (!why.empty()) message += fmt::format(" ({})", why);
  if (!what_to_do.empty()) message += fmt::format(": {}", what_to_do);
  return printable(message, /*keep_layout=*/false);
}

}  // namespace

Error::Error(ExitStatus status, const std::string& problem, const std::string& why, const std::string& what_to_do)
    : std::runtime_error(compose(problem, why, what_to_do)), status_(status) {}

Error::Error(ExitStatus status, const std::string& message) : std::runtime_error(message), status_(status) {}

void throw_config_error(const std::string& problem, const std::string& why, const std::string& what_to_do) {
  throw Error(ExitStatus::configuration, problem, why, what_to_do);
}

void throw_data_error(const std::string& problem, const std::string& why, const std::string& what_to_do) {
  throw Error(ExitStatus::data, problem, why, what_to_do);
}

std::string text_of(const SourceLocation& place) {
  const std::string file = place.file_name();
  std::size_t begin = 0;
  for (const char* top : {"/src/", "/include/", "/tests/"}) {
    if (const std::size_t slash = file.rfind(top); slash != std::string::npos) begin = std::max(begin, slash + 1);
  }
  return fmt::format("{}:{}", file.substr(begin), place.line());
}

}  // namespace sft

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
