// SPDX-License-Identifier: Apache-2.0
#include "handle.hpp"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace sft::emulation {

namespace {

/// Handles by address. The destroyed ones stay, so that no address comes again.
struct Handle {
  int device = 0;
  bool is_alive = true;
};
struct Handles {
  std::mutex mutex;
  std::map<cublasLtHandle_t, std::unique_ptr<Handle>> all;
  std::string last_refusal;
};
Handles& handles() {
  static auto* the_handles = new Handles;  // also there while other static objects are destroyed
  return *the_handles;
}

Handle* find(cublasLtHandle_t handle) {
  const auto found = handles().all.find(handle);
  return found != handles().all.end() && found->second->is_alive ? found->second.get() : nullptr;
}

}  // namespace

bool is_alive(cublasLtHandle_t handle) {
  const std::lock_guard lock(handles().mutex);
  return find(handle) != nullptr;
}

int device_of(cublasLtHandle_t handle) {
  const std::lock_guard lock(handles().mutex);
  const Handle* found = find(handle);
  return found != nullptr ? found->device : -1;
}

std::string last_refusal() {
  const std::lock_guard lock(handles().mutex);
  return handles().last_refusal;
}

void set_last_refusal(const std::string& why) {
  const std::lock_guard lock(handles().mutex);
  handles().last_refusal = why;
}

}  // namespace sft::emulation

using namespace sft::emulation;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto made = std::make_unique<Handle>();
  if (cudaGetDevice(&made->device) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  const std::lock_guard lock(handles().mutex);
  *handle = reinterpret_cast<cublasLtHandle_t>(made.get());
  handles().all.emplace(*handle, std::move(made));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const std::lock_guard lock(handles().mutex);
  Handle* found = find(handle);
  if (found == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  found->is_alive = false;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "another cublasStatus_t";
  }
}
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }
// The first one that has all that is emulated, unless the environment says another.
size_t cublasLtGetVersion() {
  const char* text = std::getenv("SFT_EMULATED_CUBLAS_VERSION");
  return text == nullptr ? 120900 : std::stoul(text);
}
size_t cublasLtGetCudartVersion() { return CUDART_VERSION; }

// There is no cache of heuristics here.
cublasStatus_t cublasLtHeuristicsCacheGetCapacity(size_t* capacity) {
  if (capacity == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *capacity = 0;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtHeuristicsCacheSetCapacity(size_t) { return CUBLAS_STATUS_SUCCESS; }
