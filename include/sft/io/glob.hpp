// SPDX-License-Identifier: Apache-2.0
#pragma once
// Patterns of paths in a folder.

#include <string>
#include <vector>

namespace sft::io {

/// Whether a name of a file or folder says that it is none of a user's data: it begins with `.` or `__`.
[[nodiscard]] bool is_hidden(const std::string& name);

/// As expand_glob, below `folder`, which is taken as it is written; an absolute pattern leaves it.
[[nodiscard]] std::vector<std::string> expand_glob_in(const std::string& folder, const std::string& pattern);

}  // namespace sft::io
