// SPDX-License-Identifier: Apache-2.0
#include "handle.hpp"

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/stream_queue.hpp"

namespace sft::emulation {

namespace {

/// Handles by address. The destroyed ones stay, so that no address comes again.
struct Handles {
  std::mutex mutex;
  std::map<cublasHandle_t, std::unique_ptr<CublasHandle>> all;
  std::string last_refusal;
};
Handles& handles() {
  static auto* the_handles = new Handles;  // also there while other static objects are destroyed
  return *the_handles;
}

}  // namespace

CublasHandle* find(cublasHandle_t handle) {
  const std::lock_guard lock(handles().mutex);
  const auto found = handles().all.find(handle);
  return found != handles().all.end() && found->second->is_alive ? found->second.get() : nullptr;
}

std::string last_cublas_refusal() {
  const std::lock_guard lock(handles().mutex);
  return handles().last_refusal;
}

cublasStatus_t refuse(cublasStatus_t status, const std::string& why) {
  const std::lock_guard lock(handles().mutex);
  handles().last_refusal = why;
  return status;
}

}  // namespace sft::emulation

using namespace sft::emulation;

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (handle == nullptr) return refuse(CUBLAS_STATUS_INVALID_VALUE, "no place for a handle");
  auto made = std::make_unique<CublasHandle>();
  if (cudaGetDevice(&made->device) != cudaSuccess) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no device");
  const std::lock_guard lock(handles().mutex);
  *handle = reinterpret_cast<cublasHandle_t>(made.get());
  handles().all.emplace(*handle, std::move(made));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  CublasHandle* found = find(handle);
  if (found == nullptr) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle, or one that was destroyed");
  found->is_alive = false;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  CublasHandle* found = find(handle);
  if (found == nullptr) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle, or one that was destroyed");
  if (device_of(stream) != found->device) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the stream belongs to another device than the handle");
  }
  found->stream = stream;
  found->workspace = nullptr;  // as documented: back to the library's own
  found->workspace_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t workspace_bytes) {
  CublasHandle* found = find(handle);
  if (found == nullptr) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle, or one that was destroyed");
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace is not aligned to 256 bytes");
  }
  if (workspace_bytes > 0 && memory_kind(found->stream, workspace, workspace_bytes) != MemoryKind::device) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace is not in one piece of the device's memory");
  }
  found->workspace = workspace;
  found->workspace_bytes = workspace_bytes;
  return CUBLAS_STATUS_SUCCESS;
}
