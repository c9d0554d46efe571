// SPDX-License-Identifier: Apache-2.0
#include "jinja/failure.hpp"

#include <fmt/core.h>
#include <utility>

#include "sft/jinja/error.hpp"

namespace sft::jinja {

namespace {

constexpr std::size_t max_message_bytes = 600;

/// Without line breaks and other control characters, and not longer than a person reads.
std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    line.push_back(is_control ? ' ' : c);
  }
  if (line.size() > max_message_bytes) {
    std::size_t end = max_message_bytes;
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;
    line.resize(end);
    line += "...";
  }
  return line;
}

}  // namespace

Failure::Failure(const std::string& why, std::string what_to_do)
    : std::runtime_error(why), what_to_do_(std::move(what_to_do)) {}

void throw_at_line(int line, const std::string& why, const std::string& what_to_do) {
  throw TemplateError(fmt::format("the template fails at line {}", line), one_line(why), what_to_do);
}

void fail_unsupported(const std::string& what) {
  throw Failure(fmt::format("{} is not supported", what), "write the template without it");
}

}  // namespace sft::jinja
