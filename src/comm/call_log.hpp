// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank knows of its collectives, group by group: which call came last, what is still under way, and whether
// anything moves. Plain data with the time as an argument; the watchdog asks it.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace sft::comm {

class CallLog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  /// Groups are numbered as they come; `names` are for messages.
  explicit CallLog(const std::vector<std::string>& names);

  /// A call of a group began. `call` is a literal.
  void start(std::size_t group, const char* call, std::size_t bytes, Time now);
  /// The group's oldest call under way is finished.
  void finish(std::size_t group, Time now);

  /// How long calls have been under way with none of them finishing; zero when none is.
  [[nodiscard]] Duration standstill(Time now) const;
  /// What stands still, and where the other groups are, in words.
  [[nodiscard]] std::string describe(Time now) const;

 private:
  struct Call {
    const char* name = "";
    std::size_t bytes = 0;
    Time start;
    std::uint64_t number = 0;  ///< of the group's calls, from 1 on
  };
  struct Group {
    std::string name;
    Call last;
    std::deque<Call> under_way;
  };

  [[nodiscard]] bool is_idle() const;

  std::vector<Group> groups_;
  Time last_move_;  ///< the last finish, or the first start since all was idle
};

}  // namespace sft::comm
