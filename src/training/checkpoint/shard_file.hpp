// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether shard files are there and hold what was written. Their whole-file checksums are those of format version 1; in
// version 2 regions have hashes (region_reader.hpp).

#include <string>

#include "header.hpp"

namespace sft::checkpoint {

/// Refuses a shard file that is missing or has another size.
void check_size(const std::string& folder, const ShardFile& file);
/// The same, and refuses one of format version 1 whose values lie in yet other files.
void check_presence(const std::string& folder, const ShardFile& file);
/// The same, and refuses one of version 1 that holds other bytes than were written.
void check_contents(const std::string& folder, const ShardFile& file);

/// The data Error of bytes of `what` whose checksum is another one.
[[noreturn]] void fail_checksum(const std::string& what, const std::string& found, const std::string& expected);

}  // namespace sft::checkpoint
