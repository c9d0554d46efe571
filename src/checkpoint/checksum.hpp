#pragma once
// Checksums of files.

#include <string>

namespace sft::checkpoint {

/// "crc32:89abcdef" of a whole file, by zlib. A data Error names a file that cannot be read.
[[nodiscard]] std::string checksum_of_file(const std::string& path);

}  // namespace sft::checkpoint
