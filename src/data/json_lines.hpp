#pragma once
// JSON-lines files, read one line at a time.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sft::data {

/// Files that the paths and globs name, in the order given, globs sorted; a data Error names what matches nothing or is
/// named twice.
[[nodiscard]] std::vector<std::string> find_inputs(const std::vector<std::string>& patterns);

/// Calls take(line) for every line that is not blank. What it throws as std::invalid_argument becomes a data Error that
/// begins with FILE:LINE. advance(bytes) reports the size of every line read.
void for_each_line(const std::string& path, const std::function<void(const std::string& line)>& take,
                   const std::function<void(std::int64_t num_bytes)>& advance);

}  // namespace sft::data
