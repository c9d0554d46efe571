// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON-lines files, read one line at a time: files, pipes and standard input.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sft::data {

/// Names standard input where a file is asked for.
inline constexpr const char* standard_input = "-";

/// Files that the paths and globs name, in the order given, globs sorted, "-" as it is; a data Error names what matches
/// nothing, is a folder or is named twice.
[[nodiscard]] std::vector<std::string> find_inputs(const std::vector<std::string>& patterns);

/// Bytes of all files together; 0, that is not known, when one of them is a pipe or standard input.
[[nodiscard]] std::int64_t total_size_bytes(const std::vector<std::string>& inputs);

/// Calls take(line) for every line that is not blank. What it throws as std::invalid_argument becomes a data Error that
/// begins with FILE:LINE. advance(bytes) reports the size of every line read.
void for_each_line(const std::string& input, const std::function<void(const std::string& line)>& take,
                   const std::function<void(std::int64_t num_bytes)>& advance);

}  // namespace sft::data
