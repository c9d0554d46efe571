// SPDX-License-Identifier: Apache-2.0
#include "data/unnamed_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "sft/core/error.hpp"

namespace sft::data {

namespace {

constexpr std::size_t write_bytes = 1 << 20;  // written at once
constexpr std::size_t window_bytes = 4096;    // read at once, at least

}  // namespace

UnnamedFile::UnnamedFile(const std::string& folder) : folder_(folder) {
  std::string path = folder + "/.sft-prepare-XXXXXX";
  descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor_ < 0) {
    throw_data_error("cannot make a temporary file in '" + folder + "'", std::strerror(errno),
                     "choose an output folder on a disk that you may write");
  }
  ::unlink(path.c_str());
}

UnnamedFile::~UnnamedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void UnnamedFile::append(std::span<const std::byte> bytes) {
  unwritten_.insert(unwritten_.end(), bytes.begin(), bytes.end());
  if (unwritten_.size() >= write_bytes) write_out();
}

void UnnamedFile::write_out() {
  std::span<const std::byte> bytes = unwritten_;
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), written_bytes_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw_data_error("cannot write a temporary file in '" + folder_ + "'", std::strerror(errno),
                       "free space there: tokenized text takes 4 bytes per token");
    }
    written_bytes_ += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  unwritten_.clear();
}

void UnnamedFile::read(std::int64_t begin_byte, std::span<std::byte> bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  ensure(begin_byte >= 0 && begin_byte + size <= size_bytes(), "what is read was appended");
  if (!unwritten_.empty()) write_out();
  if (bytes.size() > window_bytes) return read_directly(begin_byte, bytes);
  const auto is_in_window = [&] {
    return begin_byte >= window_begin_byte_ &&
           begin_byte + size <= window_begin_byte_ + static_cast<std::int64_t>(window_.size());
  };
  if (!is_in_window()) {
    window_.resize(std::min(window_bytes, static_cast<std::size_t>(written_bytes_ - begin_byte)));
    window_begin_byte_ = begin_byte;
    read_directly(begin_byte, window_);
  }
  std::copy_n(window_.begin() + (begin_byte - window_begin_byte_), size, bytes.begin());
}

void UnnamedFile::read_directly(std::int64_t begin_byte, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), begin_byte);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw_data_error("cannot read a temporary file in '" + folder_ + "'",
                       count < 0 ? std::strerror(errno) : "it became shorter", "check the disk");
    }
    begin_byte += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace sft::data
