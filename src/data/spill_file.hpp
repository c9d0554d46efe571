// SPDX-License-Identifier: Apache-2.0
#pragma once
// A temporary file that takes much in small pieces and gives it back in small pieces: it buffers both.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sft/io/unnamed_file.hpp"

namespace sft::data {

class SpillFile {
 public:
  /// A new empty file without a name on the disk of `folder`, which exists. Here and below a data Error names the
  /// folder when the disk refuses.
  explicit SpillFile(const std::string& folder);

  [[nodiscard]] std::int64_t size_bytes() const {
    return written_bytes_ + static_cast<std::int64_t>(unwritten_.size());
  }
  void append(std::span<const std::byte> bytes);
  /// Fills `bytes` from position begin_byte on; all of them have been appended. One thread at a time, as all calls.
  void read(std::int64_t begin_byte, std::span<std::byte> bytes);

 private:
  void write_out();
  void write_directly(std::span<const std::byte> bytes);
  void read_directly(std::int64_t begin_byte, std::span<std::byte> bytes) const;

  std::string folder_;
  io::UnnamedFile file_;
  std::int64_t written_bytes_ = 0;
  std::vector<std::byte> unwritten_;  ///< what was appended last
  std::vector<std::byte> window_;     ///< what was read last, for small reads close to each other
  std::int64_t window_begin_byte_ = 0;
};

}  // namespace sft::data
