// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the host waits for a device whose work may fail and then never end.

#include <functional>
#include <utility>
#include <vector>

namespace sft::device {

/// Checks that are asked while the host waits. A check throws when what is waited for will never come; its exception
/// ends the wait. For one thread.
class WaitChecks {
 public:
  using Check = std::function<void()>;

  /// `owner` names the check for remove(). Neither may be called by a check.
  void add(const void* owner, Check check);
  void remove(const void* owner);
  /// Blocks until is_ready(). After each fruitless test it asks all checks in the order they were added, then yields
  /// and, when the wait grows long, sleeps.
  void wait_until(const std::function<bool()>& is_ready) const;

 private:
  std::vector<std::pair<const void*, Check>> checks_;
};

}  // namespace sft::device
