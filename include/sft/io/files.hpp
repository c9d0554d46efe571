// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files and folders: found, read whole, and written so that they appear whole or not at all.

#include <string>
#include <vector>

namespace sft::io {

/// Paths that match `pattern` (a path or a shell glob), sorted. Empty when none does.
[[nodiscard]] std::vector<std::string> expand_glob(const std::string& pattern);
/// The whole file; a data Error names it when it cannot be read.
[[nodiscard]] std::string read_file(const std::string& path);
/// Writes to PATH.tmp, syncs, renames over PATH and syncs the folder.
void write_file_atomically(const std::string& path, const std::string& text);
/// fsync of a file or folder.
void sync_path(const std::string& path);
/// Makes the folder and its parents; a data Error says why it cannot.
void make_folders(const std::string& path);

}  // namespace sft::io
