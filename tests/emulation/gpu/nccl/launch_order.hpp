// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which NCCL launch of this process's device may run. One at a time does: NCCL promises no more when communicators
// share a device. With NCCL_LAUNCH_ORDER_IMPLICIT=1 they run in the order in which the host queued them, without it in
// any order that the streams allow; those of one communicator always run in the host's order.

#include <deque>
#include <mutex>

namespace sft::emulation {

class Launch;

class LaunchOrder {
 public:
  /// Of this process.
  [[nodiscard]] static LaunchOrder& mine();
  /// As the environment says at the first communicator.
  void read_environment();

  void add(const Launch& launch);
  /// Whether its turn has come: it is the one that runs from now on.
  [[nodiscard]] bool may_run(const Launch& launch);
  void remove(const Launch& launch);

 private:
  std::mutex mutex_;
  bool is_read_ = false, is_implicit_ = false;
  std::deque<const Launch*> unfinished_;  ///< in the order of the host
  const Launch* running_ = nullptr;
};

}  // namespace sft::emulation
