// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of the emulated GPUs. It lies in one range of addresses that the host cannot touch unless work of the GPU
// runs. Addresses are not used twice, so that freed memory is noticed.

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/stream_queue.hpp"

namespace sft::emulation {

struct Allocation {
  char* begin;
  std::size_t bytes;
  MemoryKind kind;
  int device;                    ///< that allocated it; any device reaches pinned memory
  unsigned long long number;     ///< the first one of the program is 1
  std::size_t shadow_begin = 0;  ///< of registered memory: the index of its first bytes' shadow
};

/// Null when the device (or, for pinned memory, the range of addresses) is used up. 512-byte aligned, filled with a
/// pattern that is not a number in any type.
[[nodiscard]] void* allocate(MemoryKind kind, int device, std::size_t bytes);
/// False unless `begin` is that of a live allocation of this kind.
[[nodiscard]] bool release(MemoryKind kind, void* begin);
/// cudaHostRegister and its opposite: ordinary memory counts as pinned.
[[nodiscard]] bool register_host(void* begin, std::size_t bytes);
[[nodiscard]] bool unregister_host(void* begin);

/// The live allocation that `address` lies in, or null.
[[nodiscard]] const Allocation* find_allocation(const void* address);
/// Whether the address belongs to the emulation's ranges, allocated or not.
[[nodiscard]] bool is_gpu_address(const void* address);
/// Whether accesses of its bytes are followed: those of a live allocation.
[[nodiscard]] bool has_shadow(const void* address);
[[nodiscard]] std::size_t free_device_bytes(int device);
/// "byte 1024 of the 1000 bytes of device allocation 3", "byte 0 of the freed 8 bytes of ...", "ordinary host memory".
[[nodiscard]] std::string describe_address(const void* address);

/// A number for every two bytes of device, pinned and registered memory, without gaps within an allocation: the index
/// of its shadow.
[[nodiscard]] std::size_t shadow_index(const void* address);
[[nodiscard]] std::size_t num_shadow_cells();

/// Device memory is readable and writable while one of these lives. Lives and dies under mutex() (state.hpp), and
/// opens it for all threads of the host: one around many tasks costs less than one around each.
class DeviceMemoryAccess {
 public:
  DeviceMemoryAccess();
  ~DeviceMemoryAccess();
  DeviceMemoryAccess(const DeviceMemoryAccess&) = delete;
  DeviceMemoryAccess& operator=(const DeviceMemoryAccess&) = delete;
};

}  // namespace sft::emulation
