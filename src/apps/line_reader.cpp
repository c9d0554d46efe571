// SPDX-License-Identifier: Apache-2.0
#include "line_reader.hpp"

#include <editline/readline.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>

namespace sft::apps {

std::optional<std::string> read_line(const char* prompt) {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  const std::unique_ptr<char, decltype(&std::free)> line(::readline(prompt), &std::free);
  if (line == nullptr) return std::nullopt;
  if (*line != '\0') ::add_history(line.get());
  return line.get();
}

}  // namespace sft::apps
