// SPDX-License-Identifier: Apache-2.0
#include "sft/io/raw_file.hpp"

#include <sys/stat.h>

#include <fmt/core.h>
#include <cstring>
#include <utility>

#include "descriptor.hpp"
#include "sft/core/error.hpp"

namespace sft::io {

namespace {

constexpr std::size_t large_bytes = std::size_t{1} << 20;  ///< that are worth telling the system about

[[noreturn]] void throw_errno(const std::string& problem, const char* what_to_do) {
  throw_data_error(problem, std::strerror(errno), what_to_do);
}

}  // namespace

RawFile::RawFile(std::string path, int flags, const char* what_to_do)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), flags | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) throw_errno("cannot open " + path_, what_to_do);
}

RawFile::RawFile(RawFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

RawFile::~RawFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

RawFile RawFile::open(const std::string& path) {
  RawFile file(path, O_RDONLY | O_NONBLOCK, "check the path and its permissions");  // a pipe would wait for its writer
  struct stat status {};
  if (::fstat(file.descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    throw_data_error("cannot read " + path, "it is no file", "put a file in its place");
  }
  return file;
}

RawFile RawFile::extend(const std::string& path) { return {path, O_WRONLY, "check that all ranks see the folder"}; }

RawFile RawFile::create(const std::string& path, std::uint64_t size_bytes) {
  RawFile file(path, O_WRONLY | O_CREAT | O_TRUNC, "check that the folder exists and is writable");
  if (::ftruncate(file.descriptor_, static_cast<off_t>(size_bytes)) != 0) {
    throw_errno("cannot write " + path, "free space on the disk");
  }
  return file;
}

std::uint64_t RawFile::size_bytes() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) throw_errno("cannot read " + path_, "check the disk");
  return static_cast<std::uint64_t>(status.st_size);
}

void RawFile::read(std::uint64_t at, std::size_t size, void* bytes) const {
  // Whoever reads so much at a time most likely goes on: the disk fetches that while the caller is busy with this.
  if (size >= large_bytes)
    ::posix_fadvise(descriptor_, static_cast<off_t>(at + size), large_bytes, POSIX_FADV_WILLNEED);
  const ssize_t count = read_at(descriptor_, at, size, static_cast<char*>(bytes));
  if (count < 0) throw_errno("cannot read " + path_, "check the disk");
  if (static_cast<std::size_t>(count) < size) {
    throw_data_error(
        path_ + " is cut",
        fmt::format("it ends after {} bytes, {} are needed", at + static_cast<std::uint64_t>(count), at + size),
        "copy or download the file again");
  }
}

void RawFile::write(std::uint64_t at, std::size_t size, const void* bytes) {
  if (!write_at(descriptor_, at, size, static_cast<const char*>(bytes))) {
    throw_errno("cannot write " + path_, "free space on the disk");
  }
  // The disk begins now, not with sync(); what goes wrong there, sync() says.
  if (size >= large_bytes) {
    ::sync_file_range(descriptor_, static_cast<off_t>(at), static_cast<off_t>(size), SYNC_FILE_RANGE_WRITE);
  }
}

void RawFile::sync() {
  if (::fsync(descriptor_) != 0)
    throw_errno(fmt::format("cannot write {} to the disk", path_), "free space on the disk");
}

}  // namespace sft::io
