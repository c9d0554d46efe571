// SPDX-License-Identifier: Apache-2.0
#pragma once
// The lines of a C++ source without what the compiler does not read as code.

#include <filesystem>
#include <string>
#include <vector>

namespace sft::test {

[[nodiscard]] std::vector<std::string> read_lines(const std::filesystem::path& file);

/// The same lines with comments and the contents of string and character literals left out.
[[nodiscard]] std::vector<std::string> code_of(const std::vector<std::string>& lines);

}  // namespace sft::test
