// SPDX-License-Identifier: Apache-2.0
#include "sft/io/files.hpp"

#include <fcntl.h>
#include <glob.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "descriptor.hpp"
#include "sft/core/error.hpp"

namespace sft::io {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void throw_errno(const std::string& problem, const std::string& what_to_do) {
  throw_data_error(problem, std::strerror(errno), what_to_do);
}

std::string parent_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

void write_synced(const std::string& path, const std::string& text) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file.is_open()) throw_errno("cannot create " + path, "check that the folder exists and is writable");
  if (!write_at(file.value(), 0, text.size(), text.data()))
    throw_errno("cannot write " + path, "free space on the disk");
  if (::fsync(file.value()) != 0) throw_errno("cannot write " + path + " to the disk", "free space on the disk");
}

}  // namespace

std::vector<std::string> expand_glob(const std::string& pattern) {
  if (fs::exists(pattern)) return {pattern};
  glob_t matches{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), GLOB_TILDE, nullptr, &matches) == 0) {
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  }
  ::globfree(&matches);
  return paths;
}

std::string read_file(const std::string& path) {
  std::error_code ignored;
  if (fs::is_other(path, ignored)) {
    throw_data_error("cannot read " + path, "it is a pipe or a device", "put a file in its place");
  }
  return read_file_or_pipe(path);
}

std::string read_file_or_pipe(const std::string& path) {
  if (fs::is_directory(path)) throw_data_error("cannot read " + path, "it is a folder", "name a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_errno("cannot read " + path, "check the path");
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.bad() || text.fail()) throw_errno("cannot read " + path, "check the disk");
  return std::move(text).str();
}

void write_file_atomically(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  try {
    write_synced(temporary, text);
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      throw_errno("cannot rename " + temporary + " to " + path, "check that the folder is writable");
    }
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_path(parent_of(path));
}

std::error_code rename_to_free_name(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno != EINVAL && errno != ENOSYS) return {errno, std::generic_category()};
  // Some network file systems know no such rename.
  std::error_code error;
  if (fs::exists(to, error)) return std::make_error_code(std::errc::file_exists);
  fs::rename(from, to, error);
  return error;
}

void sync_path(const std::string& path) {
  const Descriptor descriptor(path, O_RDONLY);
  // Some network file systems cannot sync a folder and say EINVAL; there is nothing more to ask of them.
  if (!descriptor.is_open() || (::fsync(descriptor.value()) != 0 && errno != EINVAL)) {
    throw_errno("cannot write " + path + " to the disk", "check the disk and its free space");
  }
}

void make_folders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && !fs::is_directory(path)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) throw_data_error("cannot make the folder " + path, error.message(), "choose a folder that you may write");
}

}  // namespace sft::io
