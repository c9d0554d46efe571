// SPDX-License-Identifier: Apache-2.0
#pragma once
// An NCCL communicator over the ranks of a Group.

#include <nccl.h>

#include <string>

#include "sft/comm/group.hpp"
#include "sft/device/wait_checks.hpp"

namespace sft::comm {

/// Non-blocking: no call waits for other ranks inside NCCL, so an error of queued work can be seen while the host
/// waits.
///
/// It ends with finalize(), wait_finalized() and destroy(); without them it is left to the end of the process. Nothing
/// calls ncclCommAbort, which returns only when all ranks of the node have called it: the error of one rank would stay
/// unsaid.
class NcclCommunicator {
 public:
  /// Collective over `group`: the first rank makes an id, MPI carries it to the others. Waits ask `checks`.
  NcclCommunicator(Group group, const device::WaitChecks& checks);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] const Group& group() const { return group_; }

  /// Makes one NCCL call, `launch(communicator)`, named `call` in errors. Returns when NCCL has queued it on its
  /// stream. An error of this or an earlier call is thrown as an Error that names the group, the call and the rank.
  template <class Launch>
  void run(const char* call, const Launch& launch) {
    throw_if_failed();
    last_call_ = call;
    settle(launch(communicator_));
  }
  /// Throws that Error if queued work has failed meanwhile; never blocks.
  void throw_if_failed() const;

  /// Starts the common end of all ranks; never blocks.
  void finalize();
  /// Blocks until it is reached; throws like run().
  void wait_finalized() const { settle(finalized_); }
  /// Frees the communicator after that.
  void destroy() { ncclCommDestroy(communicator_); }

 private:
  /// What NCCL says of its work in the background.
  [[nodiscard]] ncclResult_t state() const;
  /// Waits until NCCL is done with the call that returned `result`; throws if it failed.
  void settle(ncclResult_t result) const;
  [[noreturn]] void fail(const std::string& what, ncclResult_t result) const;

  Group group_;
  const device::WaitChecks& checks_;
  ncclComm_t communicator_ = nullptr;
  ncclResult_t finalized_ = ncclSuccess;
  std::string last_call_ = "ncclCommInitRankConfig";
};

}  // namespace sft::comm
