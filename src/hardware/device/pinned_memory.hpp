// SPDX-License-Identifier: Apache-2.0
#pragma once
// Host memory that a GPU copies from and to beside other work. Hundreds of GiB of it take minutes where one thread pins
// them page by page, and a driver or a container may refuse them in one piece: so large memory is touched by all
// threads and then pinned in blocks.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "sft/device/device.hpp"

namespace sft::device {

/// As check_cuda, with a word of its own for memory that is used up: `bytes` of it were wanted, `where`.
void check_allocation(cudaError_t code, const char* call, std::size_t bytes, const std::string& where);

/// The pinned memory of a device.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t block_bytes) : block_bytes_(block_bytes) {}

  /// `bytes` (more than 0) of memory with addresses in one piece. It must be given back before this dies. Any thread
  /// may call. Throws an Error that ends in `where` when there is not so much.
  [[nodiscard]] Device::Block allocate(std::size_t bytes, const std::string& where);

  /// How many of the next `bytes` bytes from both addresses on one call of CUDA may copy: a copy within two blocks that
  /// were pinned one by one is refused. Any thread may call.
  [[nodiscard]] std::size_t bytes_at_once(const void* a, const void* b, std::size_t bytes) const;

 private:
  [[nodiscard]] std::size_t left_in_block(const void* address) const;
  void release(std::byte* begin);

  const std::size_t block_bytes_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> blocked_;  ///< bytes of what was pinned in blocks, by its first address
};

}  // namespace sft::device
