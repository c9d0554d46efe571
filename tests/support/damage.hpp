// SPDX-License-Identifier: Apache-2.0
#pragma once
// Damage done to a file on purpose.

#include <fstream>
#include <string>

#include "sft/io/files.hpp"

namespace sft::test {

/// Writes `bytes` over what the file holds from `place` on.
inline void overwrite(const std::string& path, std::size_t place, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(place));
  file << bytes;
}

/// Turns one bit of the byte at `place` round; doing it twice mends it.
inline void flip_bit(const std::string& path, std::size_t place) {
  const char byte = io::read_file(path).at(place);
  overwrite(path, place, std::string(1, static_cast<char>(byte ^ 0x10)));
}

}  // namespace sft::test
