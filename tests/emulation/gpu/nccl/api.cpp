// SPDX-License-Identifier: Apache-2.0
// NCCL's functions, as far as a trainer uses them: arguments are checked, the rest is a Launch.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "checks.hpp"
#include "communicator.hpp"
#include "group.hpp"
#include "launch_order.hpp"
#include "runtime/kernel_fault.hpp"
#include "runtime/stream_queue.hpp"

using namespace sft::emulation;

namespace {

/// Of calls without a communicator.
std::string& last_error_of_thread() {
  thread_local std::string text;
  return text;
}

ncclResult_t refuse(ncclResult_t result, const std::string& text) {
  last_error_of_thread() = text;
  return result;
}

/// Whether SFT_EMULATED_NCCL_REFUSES names that.
bool is_refused(std::string_view what) {
  const char* refused = std::getenv("SFT_EMULATED_NCCL_REFUSES");
  return refused != nullptr && refused == what;
}

/// Runs `call` on the communicator behind the handle, unless there is none.
template <class Work>
ncclResult_t with(ncclComm_t handle, const char* call, const Work& work) {
  Communicator* communicator = Communicators::all().find(handle);
  if (communicator == nullptr) {
    return refuse(ncclInvalidArgument, std::string(call) + ": no communicator, or one that was destroyed or aborted");
  }
  return work(*communicator);
}

/// Checks a collective and queues it, now or at the end of the group.
ncclResult_t queue(ncclComm_t handle, cudaStream_t stream, const Collective& collective) {
  if (has_fault()) return refuse(ncclUnhandledCudaError, "a kernel broke off");
  return with(handle, "a collective",
              [&](Communicator& communicator) { return Group::of_thread().add(communicator, stream, collective); });
}

ncclResult_t queue(ncclComm_t handle, cudaStream_t stream, const Transfer& transfer) {
  return with(handle, transfer.is_send ? "ncclSend" : "ncclRecv",
              [&](Communicator& communicator) { return Group::of_thread().add(communicator, stream, transfer); });
}

ncclResult_t init(ncclComm_t* handle, int num_ranks, const ncclUniqueId& id, int rank, const ncclConfig_t* config) {
  if (handle == nullptr || num_ranks < 1 || rank < 0 || rank >= num_ranks) {
    return refuse(ncclInvalidArgument,
                  "ncclCommInitRank: rank " + std::to_string(rank) + " of " + std::to_string(num_ranks));
  }
  if (config != nullptr && config->magic != 0xcafebeef) {
    return refuse(ncclInvalidArgument, "ncclCommInitRankConfig: the config was not made by NCCL_CONFIG_INITIALIZER");
  }
  if (Group::of_thread().is_open()) {
    return refuse(ncclInvalidUsage, "ncclCommInitRank inside a group is not emulated");
  }
  SharedMemoryKey key;
  std::memcpy(&key, id.internal, sizeof key);
  LaunchOrder::mine().read_environment();
  run_in_background();
  try {
    const char* name = config != nullptr ? config->commName : nullptr;
    const bool is_blocking = config == nullptr || config->blocking != 0;
    *handle = Communicators::all().add(std::make_unique<Communicator>(key, num_ranks, rank, name, is_blocking));
  } catch (const std::exception& error) {
    return refuse(ncclSystemError, error.what());
  }
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return refuse(ncclInvalidArgument, "ncclGetVersion: null");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  static constexpr const char* texts[] = {"no error",
                                          "unhandled cuda error",
                                          "unhandled system error",
                                          "internal error",
                                          "invalid argument",
                                          "invalid usage",
                                          "remote process exited or there was a network error",
                                          "NCCL operation in progress"};
  return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t handle) {
  const Communicator* communicator = Communicators::all().find(handle);
  return communicator != nullptr ? communicator->last_error() : last_error_of_thread().c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return refuse(ncclInvalidArgument, "ncclGetUniqueId: null");
  static_assert(sizeof(SharedMemoryKey) <= sizeof id->internal);
  try {
    const SharedMemoryKey key = SharedMemory::make();
    std::memset(id, 0, sizeof *id);
    std::memcpy(id->internal, &key, sizeof key);
  } catch (const std::exception& error) {
    return refuse(ncclSystemError, error.what());
  }
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* handle, int num_ranks, ncclUniqueId id, int rank) {
  return init(handle, num_ranks, id, rank, nullptr);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int num_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return init(handle, num_ranks, id, rank, config);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* handle, int num_ranks, int rank, int num_ids, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  if (ids == nullptr || num_ids < 1 || num_ids > num_ranks) {
    return refuse(ncclInvalidArgument, "ncclCommInitRankScalable: " + std::to_string(num_ids) + " ids for " +
                                           std::to_string(num_ranks) + " ranks");
  }
  return init(handle, num_ranks, ids[0], rank, config);  // one board for all, that of the first id
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  return with(handle, "ncclCommSplit", [&](Communicator& communicator) {
    if (part == nullptr || color < 0 || key < 0) return refuse(ncclInvalidArgument, "ncclCommSplit: color or key");
    if (communicator.num_unfinished != 0) {
      return refuse(ncclInvalidUsage, communicator.describe() + ": ncclCommSplit while calls are under way");
    }
    try {
      const Communicator::Part found = communicator.split(color, key);
      ncclUniqueId id{};
      std::memcpy(id.internal, &found.board, sizeof found.board);
      return init(part, found.size, id, found.rank, config);
    } catch (const std::exception& error) {
      return refuse(ncclSystemError, error.what());
    }
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return with(handle, "ncclCommFinalize", [](Communicator& communicator) {
    if (communicator.state() == Communicator::State::finalized) {
      return refuse(ncclInvalidUsage, "ncclCommFinalize: a second time");
    }
    communicator.set_state(Communicator::State::finalized);
    return communicator.is_blocking() ? communicator.wait_until_finalized() : ncclInProgress;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return with(handle, "ncclCommDestroy", [](Communicator& communicator) {
    ncclResult_t result = ncclSuccess;
    if (!communicator.buffers.empty()) {
      result = refuse(ncclInvalidUsage, communicator.describe() + ": destroyed while buffers are registered");
    }
    communicator.set_state(Communicator::State::finalized);
    const ncclResult_t finalized = communicator.wait_until_finalized();
    communicator.set_state(Communicator::State::destroyed);
    return result != ncclSuccess ? result : finalized;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return with(handle, "ncclCommAbort", [](Communicator& communicator) {
    communicator.set_state(Communicator::State::aborted);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  return with(handle, "ncclCommGetAsyncError", [&](Communicator& communicator) {
    if (error == nullptr) return refuse(ncclInvalidArgument, "ncclCommGetAsyncError: null");
    *error = communicator.error();
    const bool is_finalizing = communicator.state() == Communicator::State::finalized;
    if (*error == ncclSuccess && is_finalizing && !communicator.is_finalized()) *error = ncclInProgress;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  return with(handle, "ncclCommCount", [&](Communicator& communicator) {
    *count = communicator.size();
    return ncclSuccess;
  });
}
ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  return with(handle, "ncclCommUserRank", [&](Communicator& communicator) {
    *rank = communicator.rank();
    return ncclSuccess;
  });
}
ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int* device) {
  return with(handle, "ncclCommCuDevice", [&](Communicator& communicator) {
    *device = communicator.device();
    return ncclSuccess;
  });
}

ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  if (is_refused("alloc")) return refuse(ncclUnhandledCudaError, "ncclMemAlloc: told to fail");
  return cudaMalloc(pointer, bytes) == cudaSuccess ? ncclSuccess : refuse(ncclUnhandledCudaError, "ncclMemAlloc");
}

ncclResult_t ncclMemFree(void* pointer) {
  if (const Communicator* user = Communicators::all().registered(pointer, 1)) {
    return refuse(ncclInvalidUsage, "ncclMemFree: the memory is registered with " + user->describe());
  }
  return cudaFree(pointer) == cudaSuccess ? ncclSuccess : refuse(ncclUnhandledCudaError, "ncclMemFree");
}

ncclResult_t ncclCommRegister(const ncclComm_t handle, void* buffer, size_t bytes, void** registration) {
  return with(handle, "ncclCommRegister", [&](Communicator& communicator) {
    if (registration == nullptr || bytes == 0 || memory_kind(nullptr, buffer, bytes) != MemoryKind::device) {
      return refuse(ncclInvalidArgument, "ncclCommRegister: not memory of the device");
    }
    if (is_refused("register")) return refuse(ncclSystemError, "ncclCommRegister: told to fail");
    *registration = buffer;
    const auto* begin = static_cast<const std::byte*>(buffer);
    const bool is_new = communicator.buffers.try_emplace(buffer, begin, bytes).second;
    return is_new ? ncclSuccess : refuse(ncclInvalidUsage, "ncclCommRegister: a buffer twice");
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t handle, void* registration) {
  return with(handle, "ncclCommDeregister", [&](Communicator& communicator) {
    return communicator.buffers.erase(registration) == 1
               ? ncclSuccess
               : refuse(ncclInvalidArgument, "ncclCommDeregister: no such registration");
  });
}

ncclResult_t ncclGroupStart() {
  Group::of_thread().start();
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() { return Group::of_thread().end(); }

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t handle, cudaStream_t stream) {
  return queue(handle, stream, Collective{{Call::Kind::all_reduce, type, operation, -1, count}, send, receive});
}
ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                        int root, ncclComm_t handle, cudaStream_t stream) {
  return queue(handle, stream, Collective{{Call::Kind::reduce, type, operation, root, count}, send, receive});
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t handle, cudaStream_t stream) {
  return queue(handle, stream, Collective{{Call::Kind::broadcast, type, ncclSum, root, count}, send, receive});
}
ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t handle,
                           cudaStream_t stream) {
  return queue(handle, stream, Collective{{Call::Kind::all_gather, type, ncclSum, -1, count}, send, receive});
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t handle, cudaStream_t stream) {
  return queue(handle, stream, Collective{{Call::Kind::reduce_scatter, type, operation, -1, count}, send, receive});
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  auto* data = static_cast<std::byte*>(const_cast<void*>(send));
  return queue(handle, stream, Transfer{true, peer, {Call::Kind::send, type, ncclSum, -1, count}, data});
}
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  auto* data = static_cast<std::byte*>(receive);
  return queue(handle, stream, Transfer{false, peer, {Call::Kind::send, type, ncclSum, -1, count}, data});
}
