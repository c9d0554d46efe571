#pragma once
// All NCCL communicators of this process.

#include <memory>
#include <vector>

#include "communicator.hpp"

namespace sft::comm {

/// Makes a communicator for each group at its first use and ends all of them together. While the host waits for the
/// device (see `checks`), an error of any of them is thrown.
class NcclCommunicators {
 public:
  explicit NcclCommunicators(device::WaitChecks& checks);
  /// Collective over every group, unless an exception is under way. An error here ends the program.
  ~NcclCommunicators();
  NcclCommunicators(const NcclCommunicators&) = delete;
  NcclCommunicators& operator=(const NcclCommunicators&) = delete;

  /// Collective over `group` at its first use.
  [[nodiscard]] NcclCommunicator& of(const Group& group);

 private:
  void end();

  device::WaitChecks& checks_;
  /// In the order of creation. Creating is collective, so no two ranks have two of them in different orders.
  std::vector<std::unique_ptr<NcclCommunicator>> all_;
};

}  // namespace sft::comm
