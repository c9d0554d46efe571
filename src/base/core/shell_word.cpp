// SPDX-License-Identifier: Apache-2.0
#include "sft/core/shell_word.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace sft {

std::string shell_word(const std::string& word) {
  constexpr std::string_view plain = "_./-+=:,@%";
  const auto is_plain = [&](unsigned char c) {
    return std::isalnum(c) != 0 || plain.find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace sft
