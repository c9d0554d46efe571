// SPDX-License-Identifier: Apache-2.0
#include "sft/io/seal.hpp"

#include <sys/file.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "descriptor.hpp"
#include "sealed_bytes.hpp"
#include "sft/core/error.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/superblock.hpp"

namespace sft::io {

namespace {

constexpr std::uint64_t block_bytes = 16384;

[[noreturn]] void fail(const std::string& problem, const std::string& what_to_do) {
  throw_data_error(problem, std::strerror(errno), what_to_do);
}

/// The hash of each `block_bytes` of the file's bytes [begin, end).
std::vector<std::uint64_t> hash_blocks(const Descriptor& file, const std::string& path, std::uint64_t begin,
                                       std::uint64_t end) {
  std::vector<std::uint64_t> hashes;
  std::vector<char> block(block_bytes);
  for (std::uint64_t address = begin; address < end; address += block_bytes) {
    const std::size_t size = std::min(block_bytes, end - address);
    if (read_at(file.value(), address, size, block.data()) != static_cast<ssize_t>(size)) {
      fail("cannot read " + path, "check the disk");
    }
    hashes.push_back(XXH3_64bits(block.data(), size));
  }
  return hashes;
}

void append_hashes(const Descriptor& file, const std::string& path, std::uint64_t address,
                   const std::vector<std::uint64_t>& hashes) {
  if (!write_at(file.value(), address, hashes.size() * sizeof(std::uint64_t),
                reinterpret_cast<const char*>(hashes.data()))) {
    fail("cannot write " + path, "free space on the disk");
  }
}

/// The CRC-32 that files of earlier versions carry of all bytes behind their user block.
void check_whole_crc(const std::string& path, const UserBlock& found) {
  const std::string checksum = checksum_of_file(path, seal_bytes);
  UserBlock expected{};
  const std::string line = fmt::format("sft-checkpoint {}\n", checksum);
  line.copy(expected.data(), expected.size());
  if (found == expected) return;
  throw_data_error(path + " is damaged",
                   fmt::format("its checksum is {}, which is not the one in its first {} bytes", checksum, seal_bytes),
                   "restore the file, or make it again");
}

}  // namespace

void seal(const std::string& path) {
  const Descriptor file(path, O_RDWR);
  struct stat facts {};
  if (!file.is_open() || ::fstat(file.value(), &facts) != 0) fail("cannot open " + path, "check the path");
  const BlockSizes sizes(static_cast<std::uint64_t>(facts.st_size), block_bytes);
  const std::vector<std::uint64_t> leaf_hashes = hash_blocks(file, path, seal_bytes, sizes.end);
  append_hashes(file, path, sizes.end, leaf_hashes);
  const std::uint64_t leaves_end = sizes.end + leaf_hashes.size() * sizeof(std::uint64_t);
  const std::vector<std::uint64_t> group_hashes = hash_blocks(file, path, sizes.end, leaves_end);
  append_hashes(file, path, leaves_end, group_hashes);
  const UserBlock block = make_user_block(sizes, group_hashes);
  if (!write_at(file.value(), 0, block.size(), block.data())) fail("cannot write " + path, "free space on the disk");
}

std::string restore_hashes(const std::string& path, const SealedBytes& seal) {
  const Descriptor file(path, O_RDWR);
  struct stat facts {};
  if (!file.is_open() || ::flock(file.value(), LOCK_EX | LOCK_NB) != 0 || ::fstat(file.value(), &facts) != 0) {
    return errno == EWOULDBLOCK ? "another program has it open" : std::strerror(errno);
  }
  if (has_writer_marks(file.value())) return "another program has it open for writing";
  const auto file_bytes = static_cast<std::uint64_t>(facts.st_size);
  if (file_bytes == seal.sizes().file_bytes) return "";  // another process was faster
  if (file_bytes < seal.sizes().end || file_bytes > seal.sizes().file_bytes) return "its size has changed";
  const std::vector<std::uint64_t> hashes = seal.hashes();
  const auto* bytes = reinterpret_cast<const char*>(hashes.data());
  const std::size_t all_but_last = hashes.size() * sizeof(std::uint64_t) - 1;
  // The file has its whole length when all other bytes are on the disk: before that it counts as cut.
  const bool is_written = write_at(file.value(), seal.sizes().end, all_but_last, bytes) && ::fsync(file.value()) == 0 &&
                          write_at(file.value(), seal.sizes().end + all_but_last, 1, bytes + all_but_last) &&
                          ::fsync(file.value()) == 0;
  return is_written ? "" : std::strerror(errno);
}

void check_seal(const std::string& path) {
  const Descriptor file(path, O_RDONLY | O_NONBLOCK);  // a pipe would wait for its writer
  if (!file.is_open()) fail("cannot read " + path, "check the path and its permissions");
  const UserBlock found = read_user_block(file.value());
  switch (kind_of(found, file.value())) {
    case SealKind::none:
      return;
    case SealKind::whole_crc:
      return check_whole_crc(path, found);
    case SealKind::unknown:
      throw_data_error(describe_change(path, file.value()), "it begins neither as HDF5 nor with a seal",
                       "restore the file, or make it again");
    case SealKind::block_hashes:
      break;
  }
  SealedBytes bytes(path, file.value());
  std::vector<char> piece(64 * block_bytes);
  for (std::uint64_t address = seal_bytes; address < bytes.sizes().end; address += piece.size()) {
    const std::size_t size = std::min<std::uint64_t>(piece.size(), bytes.sizes().end - address);
    switch (bytes.read(file.value(), address, size, piece.data())) {
      case SealedBytes::Result::good:
        break;
      case SealedBytes::Result::damaged:
        throw_data_error("cannot use " + path, bytes.damage(), "restore the file, or make it again");
      case SealedBytes::Result::shortened:
        throw_data_error("cannot use " + path, "it has become shorter", "restore the file, or make it again");
      case SealedBytes::Result::failed:
        fail("cannot read " + path, "check the disk");
    }
  }
}

}  // namespace sft::io
