// SPDX-License-Identifier: Apache-2.0
#include "data/spill_file.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <system_error>

#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"

namespace sft::data {

namespace {

constexpr std::size_t write_bytes = 1 << 20;  // written at once
constexpr std::size_t window_bytes = 4096;    // read at once, at least

io::UnnamedFile make_file(const std::string& folder) try {
  return io::UnnamedFile(folder);
} catch (const std::system_error& error) {
  throw_data_error(fmt::format("cannot make a temporary file in '{}'", folder), error.code().message(),
                   "choose an output folder on a disk that you may write");
}

}  // namespace

SpillFile::SpillFile(const std::string& folder) : folder_(folder), file_(make_file(folder)) {}

void SpillFile::append(std::span<const std::byte> bytes) {
  if (bytes.size() >= write_bytes) {
    write_out();
    return write_directly(bytes);
  }
  unwritten_.insert(unwritten_.end(), bytes.begin(), bytes.end());
  if (unwritten_.size() >= write_bytes) write_out();
}

void SpillFile::write_out() {
  write_directly(unwritten_);
  unwritten_.clear();
}

void SpillFile::write_directly(std::span<const std::byte> bytes) {
  try {
    file_.write(static_cast<std::uint64_t>(written_bytes_), bytes.size(), bytes.data());
  } catch (const std::system_error& error) {
    throw_data_error(fmt::format("cannot write a temporary file in '{}'", folder_), error.code().message(),
                     "free space there: tokenized text takes 4 bytes per token");
  }
  written_bytes_ += static_cast<std::int64_t>(bytes.size());
}

void SpillFile::read(std::int64_t begin_byte, std::span<std::byte> bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  SFT_ENSURE(begin_byte >= 0, "what is read was appended");
  SFT_ENSURE(begin_byte + size <= size_bytes(), "what is read was appended");
  if (!unwritten_.empty()) write_out();
  if (bytes.size() > window_bytes) return read_directly(begin_byte, bytes);
  const auto is_in_window = [&] {
    return begin_byte >= window_begin_byte_ &&
           begin_byte + size <= window_begin_byte_ + static_cast<std::int64_t>(window_.size());
  };
  if (!is_in_window()) {
    window_.resize(std::min<std::size_t>(window_bytes, written_bytes_ - begin_byte));
    window_begin_byte_ = begin_byte;
    read_directly(begin_byte, window_);
  }
  std::copy_n(window_.begin() + (begin_byte - window_begin_byte_), size, bytes.begin());
}

void SpillFile::read_directly(std::int64_t begin_byte, std::span<std::byte> bytes) const {
  try {
    file_.read(static_cast<std::uint64_t>(begin_byte), bytes.size(), bytes.data());
  } catch (const std::system_error& error) {
    throw_data_error(fmt::format("cannot read a temporary file in '{}'", folder_), error.code().message(),
                     "check the disk");
  }
}

}  // namespace sft::data
