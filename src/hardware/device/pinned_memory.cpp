// SPDX-License-Identifier: Apache-2.0
#include "pinned_memory.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "cpu_device.hpp"
#include "cuda_stream.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"

namespace sft::device {

namespace {

/// Writes to every page, with all threads of this process.
void touch(std::byte* begin, std::size_t bytes) {
  constexpr std::size_t page_bytes = 4096;
  const auto num_pages = static_cast<std::int64_t>((bytes + page_bytes - 1) / page_bytes);
#pragma omp parallel for schedule(static)
  for (std::int64_t page = 0; page < num_pages; ++page) {
    *static_cast<volatile std::byte*>(begin + static_cast<std::size_t>(page) * page_bytes) = std::byte{0};
  }
}

}  // namespace

void check_allocation(cudaError_t code, const char* call, std::size_t bytes, const std::string& where) {
  if (code == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // reported here, and not again by a later check
    throw Error(ExitStatus::failure, fmt::format("cannot allocate {} {}", format_bytes(bytes), where),
                "no memory is left there", "use more ranks, shorter rows or a smaller model");
  }
  check_cuda(code, call);
}

Device::Block PinnedMemory::allocate(std::size_t bytes, const std::string& where) {
  if (bytes <= block_bytes_) {
    void* memory = nullptr;
    check_allocation(cudaMallocHost(&memory, bytes), "cudaMallocHost", bytes, where);
    return {memory, [](void* block) { cudaFreeHost(block); }};
  }
  Device::Block memory = allocate_host(bytes);
  auto* const begin = static_cast<std::byte*>(memory.get());
  touch(begin, bytes);
  for (std::size_t done = 0; done < bytes; done += block_bytes_) {
    const cudaError_t code =
        cudaHostRegister(begin + done, std::min(block_bytes_, bytes - done), cudaHostRegisterDefault);
    if (code == cudaSuccess) continue;
    for (std::size_t i = 0; i < done; i += block_bytes_) cudaHostUnregister(begin + i);
    check_allocation(code, "cudaHostRegister", bytes, where);
  }
  {
    const std::lock_guard lock(mutex_);
    blocked_[begin] = bytes;
  }
  // The memory itself goes with the last of its holders, once it is no longer pinned.
  return {begin, [this, held = std::make_shared<Device::Block>(std::move(memory))](void* block) {
            release(static_cast<std::byte*>(block));
          }};
}

void PinnedMemory::release(std::byte* begin) {
  const std::lock_guard lock(mutex_);
  const std::size_t bytes = blocked_.at(begin);
  for (std::size_t i = 0; i < bytes; i += block_bytes_) cudaHostUnregister(begin + i);
  blocked_.erase(begin);
}

std::size_t PinnedMemory::left_in_block(const void* address) const {
  const auto* const byte = static_cast<const std::byte*>(address);
  auto next = blocked_.upper_bound(byte);
  if (next != blocked_.begin()) {
    const auto& [begin, bytes] = *--next;
    if (byte < begin + bytes) return block_bytes_ - static_cast<std::size_t>(byte - begin) % block_bytes_;
  }
  return std::numeric_limits<std::size_t>::max();
}

std::size_t PinnedMemory::bytes_at_once(const void* a, const void* b, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  return std::min({bytes, left_in_block(a), left_in_block(b)});
}

}  // namespace sft::device
