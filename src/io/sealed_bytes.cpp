// SPDX-License-Identifier: Apache-2.0
#include "sealed_bytes.hpp"

#include <sys/stat.h>
#include <xxhash.h>

#include <fmt/core.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "descriptor.hpp"
#include "sft/core/error.hpp"
#include "sft/io/hash.hpp"

namespace sft::io {

namespace {

constexpr std::uint64_t hash_bytes = sizeof(std::uint64_t);
constexpr std::uint64_t max_block_bytes = std::uint64_t{1} << 24U;
constexpr std::uint64_t max_file_bytes = std::uint64_t{1} << 60U;

std::uint64_t divide_up(std::uint64_t number, std::uint64_t by) { return (number + by - 1) / by; }

std::uint64_t hash_of(const char* bytes, std::size_t size) { return XXH3_64bits(bytes, size); }

bool begins_with(const UserBlock& block, const std::string& text) {
  return std::equal(text.begin(), text.end(), block.begin());
}

/// The text of a user block up to its first zero.
std::string text_of(const UserBlock& block) { return {block.begin(), std::find(block.begin(), block.end(), '\0')}; }

}  // namespace

SealKind kind_of(const UserBlock& block) {
  if (begins_with(block, "\x89HDF\r\n\x1a\n")) return SealKind::none;
  if (begins_with(block, "sft-seal 1 ")) return SealKind::block_hashes;
  if (begins_with(block, "sft-checkpoint crc32:")) return SealKind::whole_crc;
  return SealKind::unknown;
}

UserBlock read_user_block(int descriptor) {
  UserBlock block{};
  (void)read_at(descriptor, 0, block.size(), block.data());
  return block;
}

BlockSizes::BlockSizes(std::uint64_t hdf5_end, std::uint64_t bytes_of_block)
    : end(hdf5_end),
      block_bytes(bytes_of_block),
      num_blocks(divide_up(end - seal_bytes, block_bytes)),
      num_groups(divide_up(num_blocks * hash_bytes, block_bytes)),
      file_bytes(end + (num_blocks + num_groups) * hash_bytes) {}

UserBlock make_user_block(const BlockSizes& sizes, std::span<const std::uint64_t> group_hashes) {
  ContentHash root;
  root.add(static_cast<std::int64_t>(sizes.end));
  root.add(static_cast<std::int64_t>(sizes.block_bytes));
  root.add(group_hashes);
  const std::string line = fmt::format("sft-seal 1 {} {} {}\n", sizes.end, sizes.block_bytes, root.text());
  UserBlock block{};
  line.copy(block.data(), block.size());
  return block;
}

SealedBytes::SealedBytes(const std::string& path, int descriptor) {
  const auto refuse_file = [&path](const std::string& why) {
    throw_data_error(path + " is damaged", why, "restore the file, or make it again");
  };
  const UserBlock block = read_user_block(descriptor);
  std::istringstream line(text_of(block));
  std::string name, version;
  std::uint64_t end = 0, block_bytes = 0;
  line >> name >> version >> end >> block_bytes;
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) refuse_file(std::strerror(errno));
  const auto file_bytes = static_cast<std::uint64_t>(facts.st_size);
  const bool is_possible = line && end > seal_bytes && end < max_file_bytes && block_bytes >= hash_bytes &&
                           std::has_single_bit(block_bytes) && block_bytes <= max_block_bytes;
  if (!is_possible) refuse_file("its first line is not that of a seal");
  sizes_ = BlockSizes(end, block_bytes);
  if (sizes_.file_bytes != file_bytes) {
    refuse_file(fmt::format("it has {} bytes where {} were written", file_bytes, sizes_.file_bytes));
  }
  group_hashes_.resize(sizes_.num_groups);
  const std::size_t size = group_hashes_.size() * hash_bytes;
  if (read_at(descriptor, file_bytes - size, size, reinterpret_cast<char*>(group_hashes_.data())) !=
      static_cast<ssize_t>(size)) {
    refuse_file(std::strerror(errno));
  }
  if (block != make_user_block(sizes_, group_hashes_)) {
    refuse_file(fmt::format("its first {} bytes do not fit its last {}", seal_bytes, size));
  }
}

SealedBytes::Result SealedBytes::refuse(std::uint64_t begin, std::uint64_t end) {
  damage_ = fmt::format("damaged: bytes {} to {} are not those that were written", begin, end);
  return Result::damaged;
}

SealedBytes::Result SealedBytes::load_leaf_hashes(int descriptor, std::uint64_t group) {
  if (loaded_group_ == group) return Result::good;
  const std::uint64_t hashes_per_group = sizes_.block_bytes / hash_bytes;
  const std::uint64_t count = std::min(hashes_per_group, sizes_.num_blocks - group * hashes_per_group);
  const std::uint64_t begin = sizes_.end + group * sizes_.block_bytes;
  const std::size_t size = count * hash_bytes;
  loaded_group_.reset();
  leaf_hashes_.resize(count);
  auto* bytes = reinterpret_cast<char*>(leaf_hashes_.data());
  const ssize_t found = read_at(descriptor, begin, size, bytes);
  if (found < 0) return Result::failed;
  if (found != static_cast<ssize_t>(size)) return Result::shortened;
  if (hash_of(bytes, size) != group_hashes_[group]) return refuse(begin, begin + size);
  loaded_group_ = group;
  return Result::good;
}

SealedBytes::Result SealedBytes::read_blocks(int descriptor, std::uint64_t first, std::uint64_t count,
                                             std::vector<char>& blocks) {
  const std::uint64_t begin = seal_bytes + first * sizes_.block_bytes;
  const std::size_t size = std::min(count * sizes_.block_bytes, sizes_.end - begin);
  blocks.resize(size);
  const ssize_t found = read_at(descriptor, begin, size, blocks.data());
  if (found < 0) return Result::failed;
  if (found != static_cast<ssize_t>(size)) return Result::shortened;
  const std::uint64_t hashes_per_group = sizes_.block_bytes / hash_bytes;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t block = first + i;
    const Result loaded = load_leaf_hashes(descriptor, block / hashes_per_group);
    if (loaded != Result::good) return loaded;
    const std::size_t offset = i * sizes_.block_bytes;
    const std::size_t block_size = std::min<std::size_t>(sizes_.block_bytes, size - offset);
    if (hash_of(blocks.data() + offset, block_size) != leaf_hashes_[block % hashes_per_group]) {
      return refuse(begin + offset, begin + offset + block_size);
    }
  }
  return Result::good;
}

SealedBytes::Result SealedBytes::read(int descriptor, std::uint64_t address, std::size_t size, char* bytes) {
  constexpr std::uint64_t blocks_at_once = 64;
  std::vector<char> blocks;
  while (size > 0) {
    const std::uint64_t first = (address - seal_bytes) / sizes_.block_bytes;
    const std::uint64_t last = (address + size - 1 - seal_bytes) / sizes_.block_bytes;
    const std::uint64_t count = std::min(last - first + 1, blocks_at_once);
    const Result result = read_blocks(descriptor, first, count, blocks);
    if (result != Result::good) return result;
    const std::size_t skipped = address - seal_bytes - first * sizes_.block_bytes;
    const std::size_t taken = std::min(size, blocks.size() - skipped);
    std::copy_n(blocks.data() + skipped, taken, bytes);
    bytes += taken;
    address += taken;
    size -= taken;
  }
  return Result::good;
}

}  // namespace sft::io
