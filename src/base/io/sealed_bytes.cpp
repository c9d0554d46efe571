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
#include <string_view>
#include <utility>

#include "descriptor.hpp"
#include "sft/core/error.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/superblock.hpp"

namespace sft::io {

namespace {

constexpr std::uint64_t hash_bytes = sizeof(std::uint64_t);
constexpr std::uint64_t max_block_bytes = std::uint64_t{1} << 24U;
constexpr std::uint64_t max_file_bytes = std::uint64_t{1} << 60U;

std::uint64_t divide_up(std::uint64_t number, std::uint64_t by) { return (number + by - 1) / by; }

std::uint64_t hash_of(const char* bytes, std::size_t size) { return XXH3_64bits(bytes, size); }
std::uint64_t hash_of(const std::vector<std::uint64_t>& hashes) {
  return XXH3_64bits(hashes.data(), hashes.size() * hash_bytes);
}

bool begins_with(const UserBlock& block, const std::string& text) {
  return std::equal(text.begin(), text.end(), block.begin());
}

/// The text of a user block up to its first zero.
std::string text_of(const UserBlock& block) { return {block.begin(), std::find(block.begin(), block.end(), '\0')}; }

/// Whether a user block of this size, which is no seal, was one: no other program writes such words into it, or has
/// bytes behind the end of HDF5's part.
bool is_seal_lost(const UserBlock& block, int descriptor) {
  const std::string_view text(block.data(), block.size());
  const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  return has("sft-") || has("xxh128:") || has("crc32:") || has_bytes_behind(descriptor, seal_bytes);
}

}  // namespace

SealKind kind_of(const UserBlock& block, int descriptor) {
  if (begins_with(block, "sft-seal 1 ")) return SealKind::block_hashes;
  if (begins_with(block, "sft-checkpoint crc32:")) return SealKind::whole_crc;
  const std::optional<std::uint64_t> superblock = find_superblock(descriptor);
  if (!superblock || (*superblock == seal_bytes && is_seal_lost(block, descriptor))) return SealKind::unknown;
  return SealKind::none;
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
  const auto refuse_file = [&](const std::string& why) {
    throw_data_error(describe_change(path, descriptor), why, "restore the file, or make it again");
  };
  const UserBlock block = read_user_block(descriptor);
  line_ = text_of(block);
  std::istringstream line(line_);
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
  const std::string found_bytes = fmt::format("it has {} bytes where {} were written", file_bytes, sizes_.file_bytes);
  if (file_bytes < end || file_bytes > sizes_.file_bytes) refuse_file(found_bytes);
  is_cut_ = file_bytes < sizes_.file_bytes;
  switch (load_group_hashes(descriptor, file_bytes)) {
    case Result::good:
      break;
    case Result::failed:
      refuse_file(std::strerror(errno));
      break;
    case Result::damaged:
    case Result::shortened:
      refuse_file(found_bytes);
  }
  if (block == make_user_block(sizes_, group_hashes_)) return;
  if (is_cut_) refuse_file(found_bytes + ", and those that it has are not as they were");
  refuse_file(fmt::format("its first {} bytes do not fit its last {}", seal_bytes, sizes_.num_groups * hash_bytes));
}

std::uint64_t SealedBytes::hashes_per_group() const { return sizes_.block_bytes / hash_bytes; }

std::uint64_t SealedBytes::group_size(std::uint64_t group) const {
  return std::min(hashes_per_group(), sizes_.num_blocks - group * hashes_per_group());
}

const std::vector<std::uint64_t>& SealedBytes::leaf_hashes(std::uint64_t group) const {
  const auto made = made_leaf_hashes_.find(group);
  return made != made_leaf_hashes_.end() ? made->second : leaf_hashes_;
}

std::vector<std::uint64_t> SealedBytes::hashes() const {
  std::vector<std::uint64_t> all;
  for (const auto& [group, hashes] : made_leaf_hashes_) all.insert(all.end(), hashes.begin(), hashes.end());
  all.insert(all.end(), group_hashes_.begin(), group_hashes_.end());
  return all;
}

SealedBytes::Result SealedBytes::load_group_hashes(int descriptor, std::uint64_t file_bytes) {
  group_hashes_.resize(sizes_.num_groups);
  if (!is_cut_) {
    const std::size_t size = group_hashes_.size() * hash_bytes;
    const ssize_t found = read_at(descriptor, file_bytes - size, size, reinterpret_cast<char*>(group_hashes_.data()));
    if (found < 0) return Result::failed;
    return found == static_cast<ssize_t>(size) ? Result::good : Result::shortened;
  }
  for (std::uint64_t group = 0; group < sizes_.num_groups; ++group) {
    const Result made = make_leaf_hashes(descriptor, group);
    if (made != Result::good) return made;
    group_hashes_[group] = hash_of(made_leaf_hashes_[group]);
  }
  return Result::good;
}

SealedBytes::Result SealedBytes::make_leaf_hashes(int descriptor, std::uint64_t group) {
  std::vector<std::uint64_t> hashes;
  std::vector<char> block;
  const std::uint64_t first = group * hashes_per_group();
  for (std::uint64_t number = first; number < first + group_size(group); ++number) {
    const std::uint64_t begin = seal_bytes + number * sizes_.block_bytes;
    block.resize(std::min(sizes_.block_bytes, sizes_.end - begin));
    const ssize_t found = read_at(descriptor, begin, block.size(), block.data());
    if (found < 0) return Result::failed;
    if (found != static_cast<ssize_t>(block.size())) return Result::shortened;
    if (number == 0) clear_writer_marks(block.data(), block.size());
    hashes.push_back(hash_of(block.data(), block.size()));
  }
  made_leaf_hashes_[group] = std::move(hashes);
  return Result::good;
}

SealedBytes::Result SealedBytes::refuse(std::uint64_t begin, std::uint64_t end) {
  damage_ = fmt::format("damaged: bytes {} to {} are not those that were written", begin, end);
  return Result::damaged;
}

SealedBytes::Result SealedBytes::load_leaf_hashes(int descriptor, std::uint64_t group) {
  if (loaded_group_ == group || made_leaf_hashes_.contains(group)) return Result::good;
  const std::uint64_t begin = sizes_.end + group * sizes_.block_bytes;
  const std::size_t size = group_size(group) * hash_bytes;
  loaded_group_.reset();
  leaf_hashes_.resize(group_size(group));
  const ssize_t found = read_at(descriptor, begin, size, reinterpret_cast<char*>(leaf_hashes_.data()));
  if (found < 0) return Result::failed;
  if (found != static_cast<ssize_t>(size)) {  // HDF5 cut them off, since the file was opened
    const Result made = make_leaf_hashes(descriptor, group);
    if (made != Result::good) return made;
    if (hash_of(made_leaf_hashes_[group]) == group_hashes_[group]) return Result::good;
    made_leaf_hashes_.erase(group);
    const std::uint64_t first = seal_bytes + group * hashes_per_group() * sizes_.block_bytes;
    return refuse(first, std::min(first + group_size(group) * sizes_.block_bytes, sizes_.end));
  }
  if (hash_of(leaf_hashes_) != group_hashes_[group]) return refuse(begin, begin + size);
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
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t block = first + i;
    const std::uint64_t group = block / hashes_per_group();
    const Result loaded = load_leaf_hashes(descriptor, group);
    if (loaded != Result::good) return loaded;
    const std::size_t offset = i * sizes_.block_bytes;
    const std::size_t block_size = std::min<std::size_t>(sizes_.block_bytes, size - offset);
    char* const bytes = blocks.data() + offset;
    if (block == 0 && clear_writer_marks(bytes, block_size)) is_marked_ = true;
    if (hash_of(bytes, block_size) != leaf_hashes(group)[block % hashes_per_group()]) {
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
