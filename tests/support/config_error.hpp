// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a configuration refusal says.

#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>

#include "sft/core/error.hpp"

namespace sft::test {

/// The message of the configuration error that `action` throws; fails the test when it throws none.
inline std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    BOOST_TEST((error.status() == ExitStatus::configuration));
    return error.what();
  }
  BOOST_ERROR("was not refused");
  return {};
}

/// Fails the test unless `text` holds `part`.
inline void check_says(const std::string& text, const std::string& part) {
  BOOST_CHECK_MESSAGE(text.find(part) != std::string::npos, "\"" << text << "\" does not say \"" << part << "\"");
}

}  // namespace sft::test
