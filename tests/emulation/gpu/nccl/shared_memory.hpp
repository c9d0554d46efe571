// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that processes of one node share without a name in any file system: nothing is left of it when they end,
// however they end.

#include <cstddef>
#include <cstdint>

namespace sft::emulation {

/// Says which memory is meant, to other processes of the same user. Trivially copyable.
struct SharedMemoryKey {
  std::int32_t process = 0;
  std::int32_t descriptor = -1;
  std::uint64_t nonce = 0;  ///< also stands in the memory's first 8 bytes

  [[nodiscard]] bool operator==(const SharedMemoryKey&) const = default;
};

/// A mapping of shared memory; zero bytes at first, but for the nonce. Throws std::runtime_error where the system does
/// not give it.
class SharedMemory {
 public:
  /// Makes a new one, of no size yet. It can be opened as long as this process lives and has not closed it.
  [[nodiscard]] static SharedMemoryKey make();
  /// Maps `bytes` of it; every process asks for the same.
  SharedMemory(const SharedMemoryKey& key, std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }

  /// Lets no process open it any more; mappings stay. Only for the process that made it.
  static void close(const SharedMemoryKey& key);

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace sft::emulation
