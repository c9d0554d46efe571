// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checksums of files.

#include <cstdint>
#include <string>

namespace sft::io {

/// "crc32:89abcdef" of a file from byte `begin` on, by zlib. A data Error names a file that cannot be read.
[[nodiscard]] std::string checksum_of_file(const std::string& path, std::int64_t begin = 0);

}  // namespace sft::io
