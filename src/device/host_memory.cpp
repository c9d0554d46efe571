// SPDX-License-Identifier: Apache-2.0
#include "host_memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "sft/core/error.hpp"
#include "sft/core/format.hpp"

namespace sft::device {

Device::Block allocate_host(std::size_t bytes) {
  constexpr std::size_t huge_page_threshold_bytes = std::size_t{8} << 20;
  if (bytes == 0) return {};
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ExitStatus::failure, "cannot allocate " + format_bytes(bytes), std::strerror(errno),
                "use more ranks, shorter rows or a smaller model");
  }
  if (bytes >= huge_page_threshold_bytes) madvise(memory, bytes, MADV_HUGEPAGE);
  return {memory, [bytes](void* block) { munmap(block, bytes); }};
}

}  // namespace sft::device
