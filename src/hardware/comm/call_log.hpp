// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank knows of its collectives on a GPU, group by group: which call came last, and what is still under way. The
// streams of the CPU need none: a host that waits for them says so itself (core/activity.hpp).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace sft::comm {

/// From any thread. Every start and finish is progress of this process (note_progress).
class CallLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Groups are numbered as they come; `names` are for messages.
  explicit CallLog(const std::vector<std::string>& names);

  /// A call of a group began. `call` is a literal.
  void start(std::size_t group, const char* call, std::size_t bytes, Time now = std::chrono::steady_clock::now());
  /// The group's oldest call under way is finished.
  void finish(std::size_t group);

  /// What is under way, and where the other groups are, in words; empty where nothing is under way.
  [[nodiscard]] std::string describe(Time now = std::chrono::steady_clock::now()) const;

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

  mutable std::mutex mutex_;
  std::vector<Group> groups_;  ///< under mutex_
};

/// Asks for the calls under way that no Activity tells of, in words, empty where there are none. Run by the thread of a
/// Watch when this rank seems to stand still; notes as finished what was finished unnoticed.
using CallProbe = std::function<std::string()>;
/// `owner` names the probe for its removal, which waits for a probe that is running.
void add_call_probe(const void* owner, CallProbe probe);
void remove_call_probe(const void* owner);
/// The answers of all probes.
[[nodiscard]] std::string ask_call_probes();

}  // namespace sft::comm
