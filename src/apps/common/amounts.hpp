// SPDX-License-Identifier: Apache-2.0
#pragma once
// Amounts as people write them on a command line.

#include <cstdint>
#include <string>

namespace sft::apps {

/// "5GB", "500MB", "2GiB", "4096": as transformers reads sizes (GB: 10^9 bytes, GiB: 2^30). A configuration Error for
/// other texts and for 0.
[[nodiscard]] std::uint64_t parse_size(const std::string& text);

/// "8192", "32k" (32768 tokens): the length of a row. Throws a configuration Error that names --max_length.
[[nodiscard]] std::int64_t parse_row_length(const std::string& text);

}  // namespace sft::apps
