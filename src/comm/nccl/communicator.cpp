#include "communicator.hpp"

#include <exception>
#include <thread>
#include <utility>

#include "comm/mpi/communicator.hpp"
#include "sft/core/log.hpp"

namespace sft::comm {

namespace {

ncclUniqueId shared_id(const Group& group) {
  ncclUniqueId id{};
  group.agree([&] {
    if (group.rank() != 0) return;
    const ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess) {
      throw Error(ExitStatus::failure, "NCCL did not start for group " + group.name(), ncclGetErrorString(result),
                  "run again with NCCL_DEBUG=INFO");
    }
  });
  const Group::Impl& impl = group.impl();
  impl.check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, impl.communicator), "MPI_Bcast");
  return id;
}

}  // namespace

NcclCommunicator::NcclCommunicator(Group group) : group_(std::move(group)) {
  const ncclUniqueId id = shared_id(group_);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  settle(ncclCommInitRankConfig(&communicator_, group_.size(), id, group_.rank(), &config));
}

NcclCommunicator::~NcclCommunicator() {
  if (communicator_ == nullptr) return;
  if (std::uncaught_exceptions() > 0) {  // others may not come to a common end
    ncclCommAbort(communicator_);
    return;
  }
  ncclResult_t state = ncclCommFinalize(communicator_);
  while (state == ncclInProgress && ncclCommGetAsyncError(communicator_, &state) == ncclSuccess) {
    std::this_thread::yield();
  }
  ncclCommDestroy(communicator_);
}

void NcclCommunicator::settle(ncclResult_t result) {
  while (result == ncclInProgress) {
    std::this_thread::yield();
    const ncclResult_t query = ncclCommGetAsyncError(communicator_, &result);
    if (query != ncclSuccess) abort(query);
  }
  if (result != ncclSuccess) abort(result);
}

void NcclCommunicator::throw_if_failed() {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t query = ncclCommGetAsyncError(communicator_, &state);
  if (query != ncclSuccess) abort(query);
  if (state != ncclSuccess) abort(state);
}

void NcclCommunicator::abort(ncclResult_t result) {
  std::string text = ncclGetErrorString(result);
  const char* details = ncclGetLastError(communicator_);
  if (details != nullptr && details[0] != '\0') text += "; " + std::string(details);
  ncclCommAbort(std::exchange(communicator_, nullptr));
  throw Error(ExitStatus::failure,
              last_call_ + " failed in group " + group_.name() + " on rank " + std::to_string(log_rank()), text,
              "look for an earlier message of another rank, or run again with NCCL_DEBUG=INFO");
}

}  // namespace sft::comm
