// SPDX-License-Identifier: Apache-2.0
#pragma once
// File descriptors that close themselves, and reads and writes that go on after an interruption.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "sft/core/activity.hpp"

namespace sft::io {

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : value_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int value() const { return value_; }
  /// The caller closes it; it is not open here any more.
  [[nodiscard]] int release() { return std::exchange(value_, -1); }
  [[nodiscard]] bool is_open() const { return value_ >= 0; }

 private:
  int value_;
};

/// Reads up to `size` bytes from `address` on: less only at the end of the file. -1: errno says why.
inline ssize_t read_at(int descriptor, std::uint64_t address, std::size_t size, char* bytes) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::pread(descriptor, bytes + done, size - done, static_cast<off_t>(address + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    note_progress();
    done += count;
  }
  return static_cast<ssize_t>(done);
}

/// Writes all of it. False: errno says why.
inline bool write_at(int descriptor, std::uint64_t address, std::size_t size, const char* bytes) {
  while (size > 0) {
    const ssize_t count = ::pwrite(descriptor, bytes, size, static_cast<off_t>(address));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    note_progress();
    bytes += count;
    address += static_cast<std::uint64_t>(count);
    size -= count;
  }
  return true;
}

}  // namespace sft::io
