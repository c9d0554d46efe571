// SPDX-License-Identifier: Apache-2.0
#include "cuda_device.hpp"

#include "cuda_check.hpp"
#include "cuda_stream.hpp"
#include "host_memory.hpp"
#include "sft/core/error.hpp"
#include "sft/device/format_bytes.hpp"

namespace sft::device {

namespace {

int num_gpus() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    throw_config_error("no CUDA device", code == cudaSuccess ? "the node shows none" : cudaGetErrorString(code),
                       "check the driver with nvidia-smi and CUDA_VISIBLE_DEVICES, or set backend = cpu");
  }
  return count;
}

/// As check_cuda, with a word of its own for memory that is used up: `bytes` of it were wanted, `where`.
void check_allocation(cudaError_t code, const char* call, std::size_t bytes, const std::string& where) {
  if (code == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // reported here, and not again by a later check
    throw Error(ExitStatus::failure, "cannot allocate " + format_bytes(bytes) + " " + where, "no memory is left there",
                "use more ranks, shorter rows or a smaller model");
  }
  check_cuda(code, call);
}

}  // namespace

CudaDevice::CudaDevice(int local_rank, int num_local_ranks) {
  const int count = num_gpus();
  if (count < num_local_ranks) {
    throw_config_error(std::to_string(num_local_ranks) + " ranks on a node with " + std::to_string(count) + " GPU(s)",
                       "each rank needs one of its own",
                       "start fewer ranks a node, and let every rank see all GPUs of its node");
  }
  check_cuda(cudaSetDevice(local_rank), "cudaSetDevice");
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, local_rank), "cudaGetDeviceProperties");
  description_ = std::string(properties.name) + ", " + format_bytes(properties.totalGlobalMem);
}

Device::Block CudaDevice::allocate(std::size_t bytes, Space space) {
  if (bytes == 0) return {};
  if (space == Space::host) return allocate_host(bytes);
  void* memory = nullptr;
  if (space == Space::pinned) {
    check_allocation(cudaMallocHost(&memory, bytes), "cudaMallocHost", bytes, "as pinned memory for " + description_);
    return {memory, [](void* block) { cudaFreeHost(block); }};
  }
  check_allocation(cudaMalloc(&memory, bytes), "cudaMalloc", bytes, "on " + description_);
  return {memory, [](void* block) { cudaFree(block); }};
}

std::unique_ptr<Stream> CudaDevice::make_stream(Priority priority) {
  return std::make_unique<CudaStream>(wait_checks(), priority);
}
std::unique_ptr<Event> CudaDevice::make_event() { return std::make_unique<CudaEvent>(wait_checks()); }

void CudaDevice::copy(void* destination, const void* source, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  check_cuda(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, native_stream(stream)), "cudaMemcpyAsync");
}

void CudaDevice::fill_zero(void* destination, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  check_cuda(cudaMemsetAsync(destination, 0, bytes, native_stream(stream)), "cudaMemsetAsync");
}

}  // namespace sft::device
