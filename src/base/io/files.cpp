// SPDX-License-Identifier: Apache-2.0
#include "sft/io/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "descriptor.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"

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

/// PATH.SUFFIX, PATH.1.SUFFIX, PATH.2.SUFFIX ...
std::string numbered(const std::string& path, int number, const char* suffix) {
  return path + (number == 0 ? "" : fmt::format(".{}", number)) + suffix;
}

void write_synced(const std::string& path, const std::string& text) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  if (!file.is_open()) throw_errno("cannot write " + path, "check that the folder exists and is writable");
  if (!write_at(file.value(), 0, text.size(), text.data()))
    throw_errno("cannot write " + path, "free space on the disk");
  if (::fsync(file.value()) != 0)
    throw_errno(fmt::format("cannot write {} to the disk", path), "free space on the disk");
}

}  // namespace

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

std::string make_temporary_file(const std::string& path) {
  for (int number = 0;; ++number) {
    std::string name = numbered(path, number, ".tmp");
    if (Descriptor(name, O_WRONLY | O_CREAT | O_EXCL).is_open()) return name;
    if (errno != EEXIST) throw_errno("cannot create " + name, "check that the folder exists and is writable");
  }
}

void write_file_atomically(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}/.{}.sft-tmp", parent_of(path), fs::path(path).filename().string());
  try {
    write_synced(temporary, text);
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      throw_errno(fmt::format("cannot rename {} to {}", temporary, path), "check that the folder is writable");
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

FileIdentity identity_of(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return {};
  return {.device = file.st_dev, .inode = file.st_ino};
}

FileIdentity identity_of(int descriptor) {
  struct stat file {};
  if (::fstat(descriptor, &file) != 0) return {};
  return {.device = file.st_dev, .inode = file.st_ino};
}

bool exchange_paths(const std::string& one, const std::string& other) {
  return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0;
}

void set_aside(const std::string& path, const std::string& why, const std::string& name) {
  std::string kept;
  std::error_code error;
  for (int number = 0; kept.empty() || fs::exists(fs::symlink_status(kept, error)); ++number) {
    kept = numbered(name.empty() ? path : name, number, ".kept");
  }
  fs::rename(path, kept, error);
  if (error) throw_data_error(fmt::format("cannot rename {} to {}", path, kept), error.message(), "move it away");
  log_warning(fmt::format("{} is now {}: {}", (name.empty() ? path : name), kept, why));
}

void sync_path(const std::string& path) {
  const Descriptor descriptor(path, O_RDONLY);
  // Some network file systems cannot sync a folder and say EINVAL; there is nothing more to ask of them.
  if (!descriptor.is_open() || (::fsync(descriptor.value()) != 0 && errno != EINVAL)) {
    throw_errno(fmt::format("cannot write {} to the disk", path), "check the disk and its free space");
  }
}

void make_folders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && !fs::is_directory(path)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) throw_data_error("cannot make the folder " + path, error.message(), "choose a folder that you may write");
}

}  // namespace sft::io
