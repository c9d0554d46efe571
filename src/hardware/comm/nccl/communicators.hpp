// SPDX-License-Identifier: Apache-2.0
#pragma once
// All NCCL communicators of this process.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "communicator.hpp"
#include "sft/device/wait_checks.hpp"

namespace sft::comm {

/// One communicator for each group, made together and ended together. Errors of any of them are thrown while the host
/// waits for the device (see `checks`); where the host waits elsewhere, the thread of a Watch finds them when nothing
/// moves, and ends the run.
class NcclCommunicators {
 public:
  /// Collective over every group, which come in the same order on every rank.
  NcclCommunicators(const std::vector<TensorGroup>& groups, device::WaitChecks& checks);
  /// Collective over every group, unless an exception is under way. An error here ends the program.
  ~NcclCommunicators();
  NcclCommunicators(const NcclCommunicators&) = delete;
  NcclCommunicators& operator=(const NcclCommunicators&) = delete;

  /// Throws std::logic_error for a group that none was made for.
  [[nodiscard]] NcclCommunicator& of(const Group& group) const;

 private:
  /// For the thread of a Watch: the calls under way, in words.
  [[nodiscard]] std::string look();

  device::WaitChecks& checks_;
  const int gpu_;
  std::mutex mutex_;
  /// In the order of creation. Changed under mutex_.
  std::vector<std::unique_ptr<NcclCommunicator>> all_;
  CallLog log_;
};

}  // namespace sft::comm
