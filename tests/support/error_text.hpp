// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an action throws, as text, so that a test can ask what a message names.

#include <functional>
#include <string>

#include "sft/core/error.hpp"

namespace sft::test {

/// The message of the data Error that `action` throws; "" when it throws none.
inline std::string data_error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.status() == ExitStatus::data ? error.what() : "";
  }
  return "";
}

/// Whether `text` holds all of `parts`.
inline bool mentions(const std::string& text, const std::initializer_list<std::string>& parts) {
  for (const std::string& part : parts) {
    if (text.find(part) == std::string::npos) return false;
  }
  return true;
}

}  // namespace sft::test
