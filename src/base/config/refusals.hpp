// SPDX-License-Identifier: Apache-2.0
#pragma once
// Configuration Errors that wait for each other.

#include <fmt/format.h>
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "config/checks.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

/// Several configuration Errors as one.
class Errors : public Error {
 public:
  explicit Errors(std::vector<std::string> messages)
      : Error(ExitStatus::configuration,
              fmt::format("{} settings cannot be used (each line says why, and what to do):\n  {}", messages.size(),
                          fmt::join(messages, "\n  "))),
        messages_(std::move(messages)) {}

  [[nodiscard]] const std::vector<std::string>& messages() const { return messages_; }

 private:
  std::vector<std::string> messages_;
};

/// What cannot be used of all that was written, so that a person learns of it at once.
class Refusals {
 public:
  Refusals() = default;
  explicit Refusals(std::vector<std::string> messages) : messages_(std::move(messages)) {}

  /// work(); its configuration Error waits, or its Errors.
  template <class Work>
  void collect(const Work& work) {
    try {
      work();
    } catch (const Errors& errors) {
      for (const std::string& message : errors.messages()) add(message);
    } catch (const Error& error) {
      if (error.status() != ExitStatus::configuration) throw;
      add(error.what());
    }
  }
  /// config::require(), whose Error waits.
  void require(const Config& config, bool holds, const std::string& name, const std::string& rule) {
    collect([&] { config::require(config, holds, name, rule); });
  }
  /// config::require_size(), whose Error waits.
  void require_size(const Config& config, std::int64_t value, const std::string& name, std::int64_t high) {
    collect([&] { config::require_size(config, value, name, high); });
  }
  /// One Error for all that waits, or Errors, if anything does.
  void throw_if_any() const {
    if (messages_.empty()) return;
    if (messages_.size() == 1) throw Error(ExitStatus::configuration, messages_.front());
    throw Errors(messages_);
  }

 private:
  /// A key that is given three times is refused twice in the same words, of which one says it all.
  void add(const std::string& message) {
    if (std::ranges::find(messages_, message) == messages_.end()) messages_.push_back(message);
  }

  std::vector<std::string> messages_;
};

}  // namespace sft::config
