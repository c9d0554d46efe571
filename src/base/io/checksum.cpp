// SPDX-License-Identifier: Apache-2.0
#include "sft/io/hash.hpp"

#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/io/superblock.hpp"

namespace sft::io {

std::string checksum_of_file(const std::string& path, std::int64_t begin) {
  constexpr std::size_t buffer_bytes = 1U << 20U;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_data_error("cannot read " + path, std::strerror(errno), "check the path");
  file.seekg(begin);
  std::vector<char> buffer(buffer_bytes);
  uLong crc = ::crc32(0, nullptr, 0);
  for (bool is_first = true; file.read(buffer.data(), buffer_bytes) || file.gcount() > 0; is_first = false) {
    if (is_first) clear_writer_marks(buffer.data(), static_cast<std::size_t>(file.gcount()));
    crc = ::crc32(crc, reinterpret_cast<const Bytef*>(buffer.data()), static_cast<uInt>(file.gcount()));
  }
  if (file.bad()) throw_data_error("cannot read " + path, "the disk reports an error", "restore the file");
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "crc32:%08lx", crc);
  return text.data();
}

}  // namespace sft::io
