// SPDX-License-Identifier: Apache-2.0
#pragma once
// The processes that prepare one data set together.

#include <functional>
#include <string>
#include <vector>

namespace sft::prepare {

/// One process alone; what derives from it speaks for several. All calls but rank() and size() are collective: every
/// process makes them in the same order.
class Team {
 public:
  Team() = default;
  virtual ~Team() = default;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] virtual int rank() const { return 0; }
  [[nodiscard]] virtual int size() const { return 1; }
  /// The texts of all processes in the order of their ranks, on each.
  [[nodiscard]] virtual std::vector<std::string> all_gather(const std::string& text) const { return {text}; }
  /// Runs `work`, which makes no collective call; where it threw on any process, every one throws the error of the
  /// lowest rank that failed.
  virtual void agree(const std::function<void()>& work) const { work(); }
};

}  // namespace sft::prepare
