// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one error that has several lines.

#include <algorithm>
#include <cstdlib>
#include <string>

namespace sft::test {

/// Whether the message is "N settings cannot be used (...):" and a line for each of the N.
[[nodiscard]] inline bool is_listed_error(const std::string& message) {
  const std::string head = message.substr(0, message.find('\n'));
  return head.find(" settings cannot be used") != std::string::npos &&
         std::strtoll(head.c_str(), nullptr, 10) == std::count(message.begin(), message.end(), '\n');
}

}  // namespace sft::test
