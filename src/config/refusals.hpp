// SPDX-License-Identifier: Apache-2.0
#pragma once
// Configuration Errors that wait for each other.

#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

#include "sft/core/error.hpp"

namespace sft::config {

/// What cannot be used of all that was written, so that a person learns of it at once.
class Refusals {
 public:
  Refusals() = default;
  explicit Refusals(std::vector<std::string> messages) : messages_(std::move(messages)) {}

  /// work(); its configuration Error waits.
  template <class Work>
  void collect(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      if (error.status() != ExitStatus::configuration) throw;
      messages_.emplace_back(error.what());
    }
  }
  /// One Error for all that waits, if anything does.
  void throw_if_any() const {
    if (messages_.empty()) return;
    if (messages_.size() == 1) throw Error(ExitStatus::configuration, messages_.front());
    throw Error(ExitStatus::configuration,
                fmt::format("{} settings cannot be used (each line says why, and what to do):\n  {}", messages_.size(),
                            fmt::join(messages_, "\n  ")));
  }

 private:
  std::vector<std::string> messages_;
};

}  // namespace sft::config
