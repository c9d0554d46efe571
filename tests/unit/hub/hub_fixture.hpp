// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small safetensors files and model folders, byte by byte.

#include <cstdint>
#include <fstream>
#include <string>

#include "support/temporary_folder.hpp"

namespace sft::test {

/// The length of the header, the header, and the data.
inline std::string safetensors(const std::string& header, const std::string& data) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(header.size() >> 8 * i & 0xffU);
  return length + header + data;
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace sft::test
