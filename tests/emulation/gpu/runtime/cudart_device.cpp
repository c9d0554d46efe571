// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's calls that ask about devices, kernels and errors, and those for profilers.
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "runtime/device_properties.hpp"
#include "runtime/errors.hpp"
#include "runtime/host_counts.hpp"
#include "runtime/kernel_fault.hpp"
#include "runtime/memory.hpp"
#include "runtime/scheduler.hpp"
#include "runtime/state.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::emulation {

namespace {

thread_local cudaError_t last_error = cudaSuccess;

bool is_device(int device) { return device >= 0 && device < num_gpus(); }

long number_of_environment(const char* name, long default_value) {
  const char* text = std::getenv(name);
  return text == nullptr ? default_value : std::strtol(text, nullptr, 10);
}

/// The newest CUDA that the driver knows; 0: there is none.
int driver_version() {
  static const int version = static_cast<int>(number_of_environment("SFT_EMULATED_DRIVER", CUDART_VERSION));
  return version;
}

}  // namespace

cudaError_t result(cudaError_t code) {
  if (has_fault()) code = cudaErrorIllegalAddress;
  if (code != cudaSuccess) last_error = code;
  return code;
}

int num_gpus() {
  static const int count = static_cast<int>(number_of_environment("SFT_EMULATED_GPUS", 16));
  return count;
}

std::size_t gpu_memory_bytes() {
  static const long bytes = number_of_environment("SFT_EMULATED_GPU_MEMORY", 8L << 30);
  return static_cast<std::size_t>(bytes);
}

int compute_capability() {
  static const int number = static_cast<int>(number_of_environment("SFT_EMULATED_COMPUTE_CAPABILITY", 80));
  return number;
}

int num_multiprocessors() {
  static const int counts[] = {1, 7, 108, 132};
  static const int count = counts[random_below(std::size(counts))];
  return count;
}

}  // namespace sft::emulation

using namespace sft::emulation;

cudaError_t cudaGetDeviceCount(int* count) {
  (void)connections_at_first_call();
  if (driver_version() < CUDART_VERSION) return result(cudaErrorInsufficientDriver);
  *count = num_gpus();
  return result(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
  (void)connections_at_first_call();
  if (!is_device(device)) return result(cudaErrorInvalidDevice);
  set_current_device(device);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  (void)connections_at_first_call();
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  (void)connections_at_first_call();
  if (!is_device(device)) return result(cudaErrorInvalidDevice);
  *properties = cudaDeviceProp{};
  std::snprintf(properties->name, sizeof properties->name, "Emulated GPU %d", device);
  std::memset(properties->uuid.bytes, device + 1, sizeof properties->uuid.bytes);
  properties->totalGlobalMem = gpu_memory_bytes();
  properties->sharedMemPerBlock = shared_bytes_per_block;
  properties->sharedMemPerBlockOptin = max_shared_bytes_per_block;
  properties->sharedMemPerMultiprocessor = shared_bytes_per_multiprocessor;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = max_threads_per_block;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = max_threads_per_block;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->major = compute_capability() / 10;
  properties->minor = compute_capability() % 10;
  properties->multiProcessorCount = num_multiprocessors();
  properties->l2CacheSize = 40 << 20;
  properties->memoryBusWidth = 5120;
  properties->pciBusID = device + 1;
  properties->unifiedAddressing = properties->canMapHostMemory = 1;
  properties->concurrentKernels = 1;
  properties->asyncEngineCount = 3;
  properties->streamPrioritiesSupported = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties{};
  if (const cudaError_t code = cudaGetDeviceProperties(&properties, device); code != cudaSuccess) return code;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(properties.sharedMemPerBlock);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(properties.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = properties.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      break;
    case cudaDevAttrL2CacheSize:
      *value = properties.l2CacheSize;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = properties.memoryBusWidth;
      break;
    case cudaDevAttrClockRate:
      *value = 1410000;
      break;  // kHz
    case cudaDevAttrMemoryClockRate:
      *value = 1215000;
      break;  // kHz
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      break;
    default:
      fault("cudaDeviceGetAttribute of attribute " + std::to_string(attribute) + " is not emulated");
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!is_device(device)) return result(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", static_cast<unsigned>(device + 1));
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can_access, int device, int peer) {
  if (!is_device(device) || !is_device(peer)) return result(cudaErrorInvalidDevice);
  *can_access = 0;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  (void)connections_at_first_call();
  *version = driver_version();
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (kernel == nullptr) return result(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
      (value < 0 || value > static_cast<int>(max_shared_bytes_per_block))) {
    return result(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  if (kernel == nullptr) return result(cudaErrorInvalidDeviceFunction);
  *attributes = cudaFuncAttributes{};
  attributes->maxThreadsPerBlock = max_threads_per_block;
  attributes->numRegs = 32;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(shared_bytes_per_block);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* num_blocks, const void* kernel, int block_size,
                                                                   std::size_t shared_bytes, unsigned /*flags*/) {
  if (kernel == nullptr || block_size <= 0) return result(cudaErrorInvalidValue);
  constexpr int max_blocks = 32, threads_per_multiprocessor = 2048;
  constexpr std::size_t reserved_bytes = 1024;
  const auto by_shared = static_cast<int>(shared_bytes_per_multiprocessor / (shared_bytes + reserved_bytes));
  *num_blocks = std::min({max_blocks, threads_per_multiprocessor / block_size, by_shared});
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* num_blocks, const void* kernel, int block_size,
                                                          std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(num_blocks, kernel, block_size, shared_bytes, 0);
}

cudaError_t cudaProfilerStart() {
  const Lock lock(mutex());
  ++counts().profiler_starts;
  return cudaSuccess;
}
cudaError_t cudaProfilerStop() {
  const Lock lock(mutex());
  ++counts().profiler_stops;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const cudaError_t code = result(last_error);
  last_error = cudaSuccess;
  return code;
}

cudaError_t cudaPeekAtLastError() { return result(last_error); }

const char* cudaGetErrorName(cudaError_t code) {
  static const std::map<cudaError_t, const char*> names{
      {cudaSuccess, "cudaSuccess"},
      {cudaErrorInvalidValue, "cudaErrorInvalidValue"},
      {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation"},
      {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration"},
      {cudaErrorInvalidDevice, "cudaErrorInvalidDevice"},
      {cudaErrorNoDevice, "cudaErrorNoDevice"},
      {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction"},
      {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle"},
      {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered"},
      {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered"},
      {cudaErrorIllegalAddress, "cudaErrorIllegalAddress"},
      {cudaErrorNotReady, "cudaErrorNotReady"}};
  const auto found = names.find(code);
  return found == names.end() ? "an error of the emulated GPU" : found->second;
}

const char* cudaGetErrorString(cudaError_t code) {
  if (code == cudaErrorIllegalAddress) return "an illegal memory access was encountered";
  return code == cudaErrorMemoryAllocation ? "out of memory" : cudaGetErrorName(code);
}
