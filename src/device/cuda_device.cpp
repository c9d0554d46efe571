#include "cuda_device.hpp"

#include "cuda_check.hpp"
#include "cuda_stream.hpp"
#include "sft/core/error.hpp"
#include "sft/device/ledger.hpp"

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

Device::Block CudaDevice::allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  void* memory = nullptr;
  const cudaError_t code = cudaMalloc(&memory, bytes);
  if (code == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // reported here, and not again by a later check
    throw Error(ExitStatus::failure, "cannot allocate " + format_bytes(bytes) + " on " + description_,
                "its memory is used up", "use more ranks, shorter rows or a smaller model");
  }
  check_cuda(code, "cudaMalloc");
  return {memory, [](void* block) { cudaFree(block); }};
}

Device::Block CudaDevice::allocate_pinned(std::size_t bytes) {
  if (bytes == 0) return {};
  void* memory = nullptr;
  check_cuda(cudaMallocHost(&memory, bytes), "cudaMallocHost");
  return {memory, [](void* block) { cudaFreeHost(block); }};
}

std::unique_ptr<Stream> CudaDevice::make_stream() { return std::make_unique<CudaStream>(wait_checks()); }
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
