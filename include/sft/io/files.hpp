// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files and folders: found, read whole, and written so that they appear whole or not at all.

#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

namespace sft::io {

/// Paths that match `pattern` (a path or a shell glob), sorted. Empty when none does. A part that is `**` stands for
/// any folders, at the end for the files in them. Names that begin with `.` or `__` match where the pattern writes
/// that.
[[nodiscard]] std::vector<std::string> expand_glob(const std::string& pattern);
/// The whole file; a data Error names it when it cannot be read. A pipe, which might never end, is refused.
[[nodiscard]] std::string read_file(const std::string& path);
/// The whole of a file that a user named, which may be a pipe; a data Error names it when it cannot be read.
[[nodiscard]] std::string read_file_or_pipe(const std::string& path);
/// Renames, but never over a file that is there; what the system says where it cannot.
[[nodiscard]] std::error_code rename_to_free_name(const std::string& from, const std::string& to);
/// Makes an empty file beside `path` for what is to become it, and returns its name: PATH.tmp, or the first of
/// PATH.1.tmp, PATH.2.tmp ... that is not there yet. Never touches a file that is.
[[nodiscard]] std::string make_temporary_file(const std::string& path);
/// Writes .NAME.sft-tmp, which a killed process leaves to the next, syncs, renames over PATH and syncs the folder.
void write_file_atomically(const std::string& path, const std::string& text);
/// Which file a path leads to: two that are equal lead to the same one, whatever their names.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0;  ///< 0: there is no file
  bool operator==(const FileIdentity&) const = default;
};
[[nodiscard]] FileIdentity identity_of(const std::string& path);
/// Which file is open as `descriptor`.
[[nodiscard]] FileIdentity identity_of(int descriptor);

/// Gives two paths each other's names in one instant; false where the file system cannot.
[[nodiscard]] bool exchange_paths(const std::string& one, const std::string& other);
/// Renames what is in the way at `path` to NAME.kept, or the first of NAME.1.kept, NAME.2.kept ... that is free, and
/// warns with both names and `why`: for what is, or may be, not of this program. `name`: `path`, unless it has another.
void set_aside(const std::string& path, const std::string& why, const std::string& name = "");
/// fsync of a file or folder.
void sync_path(const std::string& path);
/// Makes the folder and its parents; a data Error says why it cannot.
void make_folders(const std::string& path);

}  // namespace sft::io
