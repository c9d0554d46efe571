// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <istream>
#include <ostream>
#include <sstream>
#include <utility>

#include "sft/core/error.hpp"
#include "sft/core/nearest.hpp"
#include "sft/launch/interview.hpp"

namespace sft::launch {

namespace {

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

[[noreturn]] void refuse_answer(const std::string& name, const std::string& given, const std::string& place,
                                const std::string& why) {
  throw_config_error(fmt::format("the answer `{}` to {} {} is not valid", given, name, place), why,
                     "correct it; an empty answer takes what is proposed");
}

}  // namespace

std::string LineAnswerer::answer(const Question& question) {
  if (is_terminal_) {
    const std::string choices = question.choices.empty() ? "" : fmt::format(" ({})", fmt::join(question.choices, ", "));
    const std::string fallback = question.fallback.empty() ? "" : fmt::format(" [{}]", question.fallback);
    out_ << fmt::format("{}{}{}: ", question.text, choices, fallback) << std::flush;
  }
  std::string line;
  if (!std::getline(in_, line)) return "";
  return trimmed(line);
}

void LineAnswerer::refuse(const Question& question, const std::string& given, const std::string& why) {
  if (!is_terminal_ || !in_) refuse_answer(question.name, given, "on standard input", why);
  out_ << fmt::format("  `{}` is not valid: {}\n", given, why);
}

FileAnswerer::FileAnswerer(const std::string& text, std::string source) : source_(std::move(source)) {
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = trimmed(line);
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) {
      throw_config_error(fmt::format("cannot read {}:{}", source_, number), "a line is `name = answer`", "correct it");
    }
    given_[trimmed(line.substr(0, equals))] = trimmed(line.substr(equals + 1));
  }
}

std::string FileAnswerer::answer(const Question& question) {
  asked_.push_back(question.name);
  const auto found = given_.find(question.name);
  return found == given_.end() ? "" : found->second;
}

void FileAnswerer::refuse(const Question& question, const std::string& given, const std::string& why) {
  refuse_answer(question.name, given, fmt::format("in {}", source_), why);
}

void FileAnswerer::finish() const {
  for (const auto& [name, value] : given_) {
    if (std::ranges::find(asked_, name) != asked_.end()) continue;
    const std::string guess = nearest(name, asked_);
    throw_config_error(fmt::format("nothing asked for `{}` in {}", name, source_),
                       fmt::format("with these answers, questions are {}", fmt::join(asked_, ", ")),
                       guess.empty() ? "leave it out" : fmt::format("did you mean {}?", guess));
  }
}

}  // namespace sft::launch
