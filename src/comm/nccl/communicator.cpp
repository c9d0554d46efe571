// SPDX-License-Identifier: Apache-2.0
#include "communicator.hpp"

#include <utility>

#include "comm/mpi/communicator.hpp"
#include "sft/core/log.hpp"

namespace sft::comm {

namespace {

ncclUniqueId shared_id(const Group& group) {
  ncclUniqueId id{};
  const ncclResult_t result = group.rank() == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
  if (result != ncclSuccess) {
    throw Error(ExitStatus::failure,
                "NCCL did not start for group " + group.name() + " on rank " + std::to_string(log_rank()),
                ncclGetErrorString(result), "run again with NCCL_DEBUG=INFO");
  }
  const Group::Impl& impl = group.impl();
  impl.check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, impl.communicator), "MPI_Bcast");
  return id;
}

}  // namespace

NcclCommunicator::NcclCommunicator(Group group, const device::WaitChecks& checks)
    : group_(std::move(group)), checks_(checks) {
  const ncclUniqueId id = shared_id(group_);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  settle(ncclCommInitRankConfig(&communicator_, group_.size(), id, group_.rank(), &config));
}

void NcclCommunicator::throw_if_failed() const {
  const ncclResult_t result = state();
  if (result != ncclSuccess && result != ncclInProgress) fail("work queued up to " + last_call_, result);
}

void NcclCommunicator::finalize() {
  last_call_ = "ncclCommFinalize";
  finalized_ = ncclCommFinalize(communicator_);
}

ncclResult_t NcclCommunicator::state() const {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t query = ncclCommGetAsyncError(communicator_, &state);
  return query == ncclSuccess ? state : query;
}

void NcclCommunicator::settle(ncclResult_t result) const {
  if (result == ncclInProgress) {
    checks_.wait_until([&] { return (result = state()) != ncclInProgress; });
  }
  if (result != ncclSuccess) fail(last_call_, result);
}

void NcclCommunicator::fail(const std::string& what, ncclResult_t result) const {
  std::string text = ncclGetErrorString(result);
  const char* details = ncclGetLastError(communicator_);
  if (details != nullptr && details[0] != '\0') text += "; " + std::string(details);
  throw Error(ExitStatus::failure,
              what + " failed in group " + group_.name() + " on rank " + std::to_string(log_rank()), text,
              "look for an earlier message of another rank, or run again with NCCL_DEBUG=INFO");
}

}  // namespace sft::comm
