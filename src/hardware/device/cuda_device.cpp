// SPDX-License-Identifier: Apache-2.0
#include "cuda_device.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <bit>

#include "cpu_device.hpp"
#include "cuda_stream.hpp"
#include "cuda_timeline.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/format.hpp"
#include "sft/device/fill_key.hpp"
#include "sft/machine/gpus.hpp"

namespace sft::device {

OwnGpu own_cuda_gpu() {
  OwnGpu own;
  check_cuda(cudaGetDevice(&own.index), "cudaGetDevice");
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, own.index), "cudaGetDeviceProperties");
  own.uuid = machine::uuid_text(std::bit_cast<std::array<unsigned char, sizeof properties.uuid>>(properties.uuid));
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    check_cuda(cudaDeviceGetAttribute(&value, which, own.index), "cudaDeviceGetAttribute");
    return static_cast<double>(value);
  };
  constexpr double hz_per_khz = 1e3, transfers_per_cycle = 2, bits_per_byte = 8;
  own.clock_hz = attribute(cudaDevAttrClockRate) * hz_per_khz;
  own.memory_bytes_per_second = attribute(cudaDevAttrMemoryClockRate) * hz_per_khz * transfers_per_cycle *
                                attribute(cudaDevAttrGlobalMemoryBusWidth) / bits_per_byte;
  return own;
}

CudaDevice::CudaDevice(int gpu, int num_sharing, std::size_t block_bytes)
    : Device(std::make_unique<CudaTimeline>()),
      num_sharing_(checked_cast<std::size_t>(num_sharing)),
      pinned_(block_bytes) {
  machine::set_cuda_environment();
  check_cuda(cudaSetDevice(gpu), "cudaSetDevice");
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
  description_ = fmt::format("{}, {}", properties.name, format_bytes(properties.totalGlobalMem));
  if (num_sharing > 1) description_ += fmt::format(", shared by {}", plural(num_sharing, "rank"));
  check_cuda(cudaFree(nullptr), "cudaFree");  // makes the context now, so that its memory is in what is measured next
}

Device::Block CudaDevice::allocate(std::size_t bytes, Space space) {
  if (bytes == 0) return {};
  if (space == Space::host) return allocate_host(bytes);
  if (space == Space::pinned) return pinned_.allocate(bytes, fmt::format("as pinned memory for {}", description_));
  void* memory = nullptr;
  check_allocation(cudaMalloc(&memory, bytes), "cudaMalloc", bytes, fmt::format("on {}", description_));
  Block block{memory, [](void* allocated) { cudaFree(allocated); }};
  (void)peak_bytes();
  return block;
}

std::optional<OwnMemory> CudaDevice::own_memory() const {
  std::size_t free_bytes = 0, total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  return OwnMemory{total_bytes / num_sharing_, (total_bytes - free_bytes) / num_sharing_};
}

std::size_t CudaDevice::peak_bytes() {
  peak_bytes_ = std::max(peak_bytes_, own_memory()->used_bytes);
  return peak_bytes_;
}

std::unique_ptr<Stream> CudaDevice::make_stream(Priority priority) {
  return std::make_unique<CudaStream>(wait_checks(), priority);
}
std::unique_ptr<Event> CudaDevice::make_event() { return std::make_unique<CudaEvent>(wait_checks()); }

void CudaDevice::copy(void* destination, const void* source, std::size_t bytes, Stream& stream) {
  auto* to = static_cast<std::byte*>(destination);
  const auto* from = static_cast<const std::byte*>(source);
  while (bytes > 0) {
    const std::size_t count = pinned_.bytes_at_once(to, from, bytes);
    check_cuda(cudaMemcpyAsync(to, from, count, cudaMemcpyDefault, native_stream(stream)), "cudaMemcpyAsync");
    to += count;
    from += count;
    bytes -= count;
  }
}

void CudaDevice::fill_zero(void* destination, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  const auto fill = [=, &stream] {
    check_cuda(cudaMemsetAsync(destination, 0, bytes, native_stream(stream)), "cudaMemsetAsync");
  };
  if (stream.tape() == nullptr) return fill();
  stream.tape()->defer(key_of_fill_zero(destination, bytes), fill);
}

}  // namespace sft::device
