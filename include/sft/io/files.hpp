// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files and folders: found, read whole, and written so that they appear whole or not at all.

#include <string>
#include <system_error>
#include <vector>

namespace sft::io {

/// Paths that match `pattern` (a path or a shell glob), sorted. Empty when none does.
[[nodiscard]] std::vector<std::string> expand_glob(const std::string& pattern);
/// The whole file; a data Error names it when it cannot be read. A pipe, which might never end, is refused.
[[nodiscard]] std::string read_file(const std::string& path);
/// The same of a file that a user named, which may be a pipe.
[[nodiscard]] std::string read_file_or_pipe(const std::string& path);
/// Writes to PATH.tmp, syncs, renames over PATH and syncs the folder.
void write_file_atomically(const std::string& path, const std::string& text);
/// Renames, but never over a file that is there; what the system says where it cannot.
[[nodiscard]] std::error_code rename_to_free_name(const std::string& from, const std::string& to);
/// fsync of a file or folder.
void sync_path(const std::string& path);
/// Makes the folder and its parents; a data Error says why it cannot.
void make_folders(const std::string& path);

}  // namespace sft::io
