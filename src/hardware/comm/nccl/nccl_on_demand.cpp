// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL that sft calls. Each goes on to the library itself, which is loaded at the first call: a
// program that links these needs no NCCL until ranks talk through it.
#include <nccl.h>

#include "sft/core/on_demand_library.hpp"

namespace {

sft::OnDemandLibrary& library() {
  static sft::OnDemandLibrary opened("NCCL", {"libnccl.so.2", SFT_NCCL_FILE},
                                     "install it, add its folder to LD_LIBRARY_PATH, or set [device] comm = host");
  return opened;
}

}  // namespace

// The arguments of NCCL's functions are handed on as they are.
#define SFT_FORWARD(result, name, parameters, arguments)                    \
  result name parameters {                                                  \
    static auto* const forward = library().function<decltype(name)>(#name); \
    return forward arguments;                                               \
  }

extern "C" {

SFT_FORWARD(ncclResult_t, ncclGetVersion, (int* version), (version))
SFT_FORWARD(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id), (id))
SFT_FORWARD(const char*, ncclGetErrorString, (ncclResult_t result), (result))
SFT_FORWARD(const char*, ncclGetLastError, (ncclComm_t communicator), (communicator))
SFT_FORWARD(ncclResult_t, ncclCommInitRankScalable,
            (ncclComm_t * communicator, int size, int rank, int num_ids, ncclUniqueId* ids, ncclConfig_t* config),
            (communicator, size, rank, num_ids, ids, config))
SFT_FORWARD(ncclResult_t, ncclCommSplit,
            (ncclComm_t communicator, int color, int key, ncclComm_t* part, ncclConfig_t* config),
            (communicator, color, key, part, config))
SFT_FORWARD(ncclResult_t, ncclCommFinalize, (ncclComm_t communicator), (communicator))
SFT_FORWARD(ncclResult_t, ncclCommDestroy, (ncclComm_t communicator), (communicator))
SFT_FORWARD(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t communicator, ncclResult_t* error), (communicator, error))
SFT_FORWARD(ncclResult_t, ncclMemAlloc, (void** memory, size_t bytes), (memory, bytes))
SFT_FORWARD(ncclResult_t, ncclMemFree, (void* memory), (memory))
SFT_FORWARD(ncclResult_t, ncclCommRegister, (const ncclComm_t communicator, void* memory, size_t bytes, void** handle),
            (communicator, memory, bytes, handle))
SFT_FORWARD(ncclResult_t, ncclCommDeregister, (const ncclComm_t communicator, void* handle), (communicator, handle))
SFT_FORWARD(ncclResult_t, ncclAllReduce,
            (const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
             ncclComm_t communicator, cudaStream_t stream),
            (send, receive, count, type, op, communicator, stream))
SFT_FORWARD(ncclResult_t, ncclAllGather,
            (const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t communicator,
             cudaStream_t stream),
            (send, receive, count, type, communicator, stream))
SFT_FORWARD(ncclResult_t, ncclReduceScatter,
            (const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
             ncclComm_t communicator, cudaStream_t stream),
            (send, receive, count, type, op, communicator, stream))
SFT_FORWARD(ncclResult_t, ncclSend,
            (const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
             cudaStream_t stream),
            (send, count, type, peer, communicator, stream))
SFT_FORWARD(ncclResult_t, ncclRecv,
            (void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator, cudaStream_t stream),
            (receive, count, type, peer, communicator, stream))
SFT_FORWARD(ncclResult_t, ncclGroupStart, (), ())
SFT_FORWARD(ncclResult_t, ncclGroupEnd, (), ())

}  // extern "C"
