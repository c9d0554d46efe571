// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ends a run whose collectives stand still: a rank that is lost, or calls in different order, would else keep all
// others waiting until the batch system's time is up.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "call_log.hpp"
#include "sft/comm/collectives.hpp"

namespace sft::comm {

/// A CallLog for several threads, and a thread that looks at it. The thread makes no MPI call: only the thread that
/// made the Session may.
class Watchdog {
 public:
  struct Hooks {
    /// Called by the thread when nothing seems to have moved for half the timeout: calls finish() for what was finished
    /// unnoticed. May be empty, where the caller notices everything itself.
    std::function<void()> refresh;
    /// Called by the thread, once, when nothing has moved for the timeout; told what stands still.
    std::function<void(const std::string& standstill)> on_standstill;
  };

  /// For groups of these names, numbered as they come. timeout_s = 0: nobody looks.
  Watchdog(const std::vector<std::string>& names, double timeout_s, Hooks hooks);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Notes in the CallLog that a call of a group began, or that its oldest one is finished. From any thread.
  void start(std::size_t group, const char* call, std::size_t bytes);
  void finish(std::size_t group);

 private:
  void watch();

  const CallLog::Duration timeout_;
  const Hooks hooks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  CallLog log_;        // under mutex_
  bool ends_ = false;  // under mutex_
  std::thread thread_;
};

/// A call over one of `groups`, whose names `watchdog` was made with, from its beginning to its end. A group of one
/// rank need not be one of them and is not watched: nobody waits in it.
class WatchedCall {
 public:
  /// Throws std::logic_error where a `group` of several ranks is none of them.
  WatchedCall(Watchdog& watchdog, const std::vector<TensorGroup>& groups, const Group& group, const char* call,
              std::size_t bytes);
  ~WatchedCall() {
    if (number_) watchdog_.finish(*number_);
  }
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

 private:
  Watchdog& watchdog_;
  const std::optional<std::size_t> number_;  ///< of the group
};

/// The names of groups, for a Watchdog.
[[nodiscard]] std::vector<std::string> names_of(const std::vector<TensorGroup>& groups);

/// What a run does at a standstill: one line with the rank and what stands still on standard error, then the end of
/// this process with ExitStatus::failure, upon which the launcher ends the others. Not MPI_Abort, which the watchdog's
/// thread may not call.
[[noreturn]] void end_at_standstill(const std::string& standstill);

}  // namespace sft::comm
