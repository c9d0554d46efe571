// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which files the words of a user name.

#include <cstdint>
#include <string>
#include <vector>

namespace sft::data {

/// The files of one word of the user.
struct InputGroup {
  std::string pattern;
  std::vector<std::string> files;
};

/// Files that the paths, folders and globs name, in the order given, globs sorted, "-" as it is. Of a folder those that
/// end in .jsonl or .json, .gz or .zst behind it included, sorted. A data Error names what matches nothing or is named
/// twice.
[[nodiscard]] std::vector<InputGroup> find_inputs(const std::vector<std::string>& patterns);

/// Bytes of all files together; 0, that is not known, when one of them is a pipe or standard input.
[[nodiscard]] std::int64_t total_size_bytes(const std::vector<InputGroup>& groups);

}  // namespace sft::data
