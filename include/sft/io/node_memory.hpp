// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that processes of one node share.

#include <cstddef>
#include <memory>
#include <string>

namespace sft::io {

/// Zeros at first. Its room is taken when it is made, so that nobody runs into an end of memory later.
class NodeMemory {
 public:
  /// Null where the node's shared memory (/dev/shm) has no room for it. A kill before forget() leaves it there.
  [[nodiscard]] static std::unique_ptr<NodeMemory> make(std::size_t bytes);
  /// What another process made; null where it cannot be reached.
  [[nodiscard]] static std::unique_ptr<NodeMemory> open(const std::string& path, std::size_t bytes);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size_bytes() const { return bytes_; }
  /// Takes its name away: all processes that use it have opened it, and the system frees it with the last of them.
  void forget() const;

 private:
  NodeMemory(std::string path, std::byte* data, std::size_t bytes)
      : path_(std::move(path)), data_(data), bytes_(bytes) {}
  static std::unique_ptr<NodeMemory> map(int descriptor, std::string path, std::size_t bytes);

  std::string path_;
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace sft::io
