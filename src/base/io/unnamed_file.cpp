// SPDX-License-Identifier: Apache-2.0
#include "sft/io/unnamed_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "descriptor.hpp"

namespace sft::io {

namespace {

[[noreturn]] void throw_system_error(int error) { throw std::system_error(error, std::generic_category()); }

}  // namespace

UnnamedFile::UnnamedFile(const std::string& folder) {
  std::string path = folder + "/.sft-XXXXXX";
  descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor_ < 0) throw_system_error(errno);
  ::unlink(path.c_str());
}

UnnamedFile::~UnnamedFile() { ::close(descriptor_); }

void UnnamedFile::reserve(std::uint64_t size_bytes) const {
  if (size_bytes == 0) return;
  const auto size = static_cast<off_t>(size_bytes);
  int result = 0;
  do {
    result = ::fallocate(descriptor_, 0, 0, size);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) result = ::ftruncate(descriptor_, size);
  if (result != 0) throw_system_error(errno);
}

void UnnamedFile::read(std::uint64_t at, std::size_t size, void* bytes) const {
  const ssize_t count = read_at(descriptor_, at, size, static_cast<char*>(bytes));
  if (count < 0) throw_system_error(errno);
  if (static_cast<std::size_t>(count) < size) throw_system_error(EIO);
}

void UnnamedFile::write(std::uint64_t at, std::size_t size, const void* bytes) const {
  if (!write_at(descriptor_, at, size, static_cast<const char*>(bytes))) throw_system_error(errno);
}

}  // namespace sft::io
