// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files of plain bytes, read and written at any place.

#include <cstddef>
#include <cstdint>
#include <string>

namespace sft::io {

/// An open file. Errors are data Errors that name it. Reads are safe from several threads.
class RawFile {
 public:
  /// Opens a file to read.
  [[nodiscard]] static RawFile open(const std::string& path);
  /// Makes a file of `size_bytes` zeros to write to, in place of one of that name.
  [[nodiscard]] static RawFile create(const std::string& path, std::uint64_t size_bytes);
  /// Opens a file that another process has made, to write to.
  [[nodiscard]] static RawFile extend(const std::string& path);
  ~RawFile();
  RawFile(RawFile&& other) noexcept;
  RawFile& operator=(RawFile&&) = delete;
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size_bytes() const;

  /// Reads `size` bytes from `at` on; refuses a file that ends before.
  void read(std::uint64_t at, std::size_t size, void* bytes) const;
  void write(std::uint64_t at, std::size_t size, const void* bytes);
  /// Returns when what was written is on the disk.
  void sync();

 private:
  RawFile(std::string path, int flags, const char* what_to_do);

  std::string path_;
  int descriptor_;
};

}  // namespace sft::io
