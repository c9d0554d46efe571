#pragma once
// An NCCL communicator over the ranks of a Group.

#include <nccl.h>

#include <string>

#include "sft/comm/group.hpp"

namespace sft::comm {

/// Non-blocking: no call waits for other ranks inside NCCL, so an error of any of them is seen and named here.
class NcclCommunicator {
 public:
  /// Collective over `group`: the first rank makes an id, MPI carries it to the others.
  explicit NcclCommunicator(Group group);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Makes one NCCL call, `launch(communicator)`, named `call` in errors. Returns when NCCL has queued it on its
  /// stream. An error of this or an earlier call aborts the communicator and is thrown as an Error that names the
  /// group, the call and the rank.
  template <class Launch>
  void run(const char* call, const Launch& launch) {
    throw_if_failed();
    last_call_ = call;
    settle(launch(communicator_));
  }

 private:
  /// Waits until NCCL has accepted the last call; throws if it failed.
  void settle(ncclResult_t result);
  /// Throws if queued work has failed meanwhile.
  void throw_if_failed();
  [[noreturn]] void abort(ncclResult_t result);

  Group group_;
  ncclComm_t communicator_ = nullptr;
  std::string last_call_ = "ncclCommInitRankConfig";
};

}  // namespace sft::comm
