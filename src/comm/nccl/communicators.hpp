// SPDX-License-Identifier: Apache-2.0
#pragma once
// All NCCL communicators of this process.

#include <memory>
#include <vector>

#include "communicator.hpp"

namespace sft::comm {

/// One communicator for each group, made together and ended together. While the host waits for the device (see
/// `checks`), an error of any of them is thrown.
class NcclCommunicators {
 public:
  /// Collective over every group, which come in the same order on every rank.
  NcclCommunicators(const std::vector<Group>& groups, device::WaitChecks& checks);
  /// Collective over every group, unless an exception is under way. An error here ends the program.
  ~NcclCommunicators();
  NcclCommunicators(const NcclCommunicators&) = delete;
  NcclCommunicators& operator=(const NcclCommunicators&) = delete;

  /// Throws std::logic_error for a group that none was made for.
  [[nodiscard]] NcclCommunicator& of(const Group& group) const;

 private:
  void end();

  device::WaitChecks& checks_;
  /// In the order of creation.
  std::vector<std::unique_ptr<NcclCommunicator>> all_;
};

}  // namespace sft::comm
