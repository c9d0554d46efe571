// SPDX-License-Identifier: Apache-2.0
#include "prepare/spill_file.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"

namespace sft::prepare {

namespace {

constexpr std::size_t write_bytes = 1 << 20;  // written at once
constexpr std::size_t window_bytes = 4096;    // read at once, at least

std::unique_ptr<io::UnnamedFile> make_file(const std::string& folder) try {
  return std::make_unique<io::UnnamedFile>(folder);
} catch (const std::system_error& error) {
  throw_data_error(fmt::format("cannot make a temporary file in '{}'", folder), error.code().message(),
                   "choose an output folder on a disk that you may write");
}

}  // namespace

SpillFile::SpillFile(const std::string& folder) : place_(folder), unnamed_(make_file(folder)) {}

SpillFile SpillFile::make_shared(const std::string& path) {
  SpillFile file(path, io::RawFile::create(path, 0), 0);
  file.removed_path_ = std::make_unique<const std::string>(path);
  return file;
}

SpillFile SpillFile::open_shared(const std::string& path) {
  io::RawFile file = io::RawFile::open(path);
  const auto size_bytes = static_cast<std::int64_t>(file.size_bytes());
  return {path, std::move(file), size_bytes};
}

SpillFile::~SpillFile() {
  std::error_code ignored;
  if (removed_path_) std::filesystem::remove(*removed_path_, ignored);
}

void SpillFile::finish() {
  if (!unwritten_.empty()) write_out();
  if (shared_) shared_->sync();
}

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
  const auto at = static_cast<std::uint64_t>(written_bytes_);
  try {
    shared_ ? shared_->write(at, bytes.size(), bytes.data()) : unnamed_->write(at, bytes.size(), bytes.data());
  } catch (const std::system_error& error) {
    throw_data_error(fmt::format("cannot write a temporary file in '{}'", place_), error.code().message(),
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
  const auto at = static_cast<std::uint64_t>(begin_byte);
  try {
    shared_ ? shared_->read(at, bytes.size(), bytes.data()) : unnamed_->read(at, bytes.size(), bytes.data());
  } catch (const std::system_error& error) {
    throw_data_error(fmt::format("cannot read a temporary file in '{}'", place_), error.code().message(),
                     "check the disk");
  }
}

}  // namespace sft::prepare
