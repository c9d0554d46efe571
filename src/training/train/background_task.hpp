// SPDX-License-Identifier: Apache-2.0
#pragma once
// Work on a thread of its own, one piece after the other. Where it and training want the same core, training has most
// of it, so that a step is little longer; cores that training leaves idle it uses as any thread.

#include <sys/resource.h>

#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace sft::train {

/// For one owner. The work knows neither MPI nor a device.
class BackgroundTask {
 public:
  BackgroundTask() = default;
  /// Waits for the work.
  ~BackgroundTask() { join(); }
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  /// Starts `work`; waits for earlier work first, whose error, if nobody asked for it, is forgotten.
  void start(std::function<void()> work) {
    join();
    error_ = nullptr;
    has_failed_ = false;
    is_done_ = false;
    thread_ = std::thread([this, work = std::move(work)] {
      // Linux takes it for this thread alone: a tenth of the share of a thread as training's are. No harm where
      // refused.
      static_cast<void>(::setpriority(PRIO_PROCESS, 0, ::getpriority(PRIO_PROCESS, 0) + 10));
      try {
        work();
      } catch (...) {
        error_ = std::current_exception();
        has_failed_ = true;
      }
      is_done_ = true;
    });
  }
  /// Whether there is no work, or none any more. Never waits.
  [[nodiscard]] bool is_done() const { return is_done_; }
  /// Whether the last work ended with an error that nobody has asked for. Never waits.
  [[nodiscard]] bool has_failed() const { return has_failed_; }
  /// Waits for the work, and throws what it threw, once.
  void wait() {
    join();
    has_failed_ = false;
    if (const std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
  }

 private:
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  std::exception_ptr error_;  ///< of the thread until it is done, then of the owner
  std::atomic<bool> is_done_ = true, has_failed_ = false;
  std::thread thread_;
};

}  // namespace sft::train
