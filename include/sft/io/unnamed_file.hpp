// SPDX-License-Identifier: Apache-2.0
#pragma once
// A temporary file without a name: the system removes it when the process ends, however it ends.

#include <cstddef>
#include <cstdint>
#include <string>

namespace sft::io {

/// Every error is a std::system_error with the errno of the system call: who needs the file knows what to tell the
/// user.
class UnnamedFile {
 public:
  /// A new empty file on the disk of `folder`, which exists.
  explicit UnnamedFile(const std::string& folder);
  ~UnnamedFile();
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  /// For calls of the system; the file closes it.
  [[nodiscard]] int descriptor() const { return descriptor_; }

  /// Makes it a file of `size_bytes` zeros whose room is taken now, so that no later write finds the disk full. Where
  /// the file system cannot take it, as old ones, the file at least has its size.
  void reserve(std::uint64_t size_bytes) const;
  /// Any thread may call these, also at the same time. A file that ends too early is EIO.
  void read(std::uint64_t at, std::size_t size, void* bytes) const;
  void write(std::uint64_t at, std::size_t size, const void* bytes) const;

 private:
  int descriptor_;
};

}  // namespace sft::io
