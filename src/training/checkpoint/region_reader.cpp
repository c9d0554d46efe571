// SPDX-License-Identifier: Apache-2.0
#include "region_reader.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/superblock.hpp"
#include "shard_file.hpp"
#include "shard_layout.hpp"
#include "warn_once.hpp"

namespace sft::checkpoint {

namespace {

constexpr std::size_t max_open_files = 32;

/// Warns once of a program that opened the file for writing. The file's hash is right.
void warn_of_writer(const std::string& path, const io::RawFile& file) {
  std::array<char, io::superblock_bytes> begin{};
  if (file.size_bytes() < begin.size()) return;
  file.read(0, begin.size(), begin.data());
  if (io::clear_writer_marks(begin.data(), begin.size()))
    warn_once(io::describe_writer_marks(path, io::compared_with_hashes));
}

}  // namespace

std::string RegionReader::path_of(std::size_t file) const {
  return (std::filesystem::path(folder_) / map_.files[file].name).string();
}

const io::RawFile& RegionReader::open(std::size_t file) {
  if (const auto found = files_.find(file); found != files_.end()) return found->second;
  if (files_.size() >= max_open_files) files_.clear();
  ++num_opens_;
  return files_.emplace(file, io::RawFile::open(path_of(file))).first->second;
}

void RegionReader::read(int rank, std::size_t entry, std::int64_t begin, std::int64_t count, void* bytes) {
  const RankRegions& regions = map_.ranks[rank];
  const StoredRegion& region = regions.regions[entry];
  if (begin < 0 || begin + count > region.num_elements) {
    throw_data_error(fmt::format("the map of {} is damaged", folder_),
                     fmt::format("elements [{}, {}) are asked of {} that rank {} wrote of {}", begin, begin + count,
                                 region.num_elements, rank, map_.entries[entry].name),
                     "use another checkpoint");
  }
  const std::size_t element_bytes = size_of(map_.entries[entry].dtype);
  num_bytes_ += static_cast<std::uint64_t>(count) * element_bytes;
  open(regions.file)
      .read(region.begin + static_cast<std::uint64_t>(begin) * element_bytes, count * element_bytes, bytes);
}

void RegionReader::check_file(std::size_t file) {
  check_size(folder_, map_.files[file]);
  std::vector<ByteRange> regions;
  for (const RankRegions& rank : map_.ranks) {
    if (rank.file != static_cast<int>(file)) continue;
    for (std::size_t i = 0; i < rank.regions.size(); ++i) {
      const StoredRegion& region = rank.regions[i];
      regions.push_back(
          {region.begin, static_cast<std::uint64_t>(region.num_elements) * size_of(map_.entries[i].dtype)});
    }
  }
  const std::string found = hash_around(open(file), std::move(regions));
  if (found != map_.files[file].checksum) fail_checksum(path_of(file), found, map_.files[file].checksum);
  warn_of_writer(path_of(file), open(file));
}

void RegionReader::check_region(int rank, std::size_t entry) {
  const StoredRegion& region = map_.ranks[rank].regions[entry];
  if (region.num_elements == 0) return;
  RegionCheck check(*this, rank, entry);
  std::vector<char> bytes;
  constexpr std::int64_t most = std::int64_t{1} << 20;
  for (std::int64_t begin = 0; begin < region.num_elements; begin += most) {
    const std::int64_t count = std::min(most, region.num_elements - begin);
    bytes.resize(count * size_of(map_.entries[entry].dtype));
    read(rank, entry, begin, count, bytes.data());
    check.add(bytes.data(), bytes.size());
  }
  check.finish();
}

RegionCheck::RegionCheck(const RegionReader& reader, int rank, std::size_t entry)
    : reader_(reader),
      rank_(rank),
      entry_(entry),
      may_be_zeros_(reader.map_.ranks[rank].regions[entry].hash == zero_hash) {}

void RegionCheck::add(const void* bytes, std::size_t count) {
  hash_.add(bytes, count);
  const auto* begin = static_cast<const char*>(bytes);
  may_be_zeros_ = may_be_zeros_ && std::all_of(begin, begin + count, [](char byte) { return byte == 0; });
}

void RegionCheck::finish() const {
  const RankRegions& regions = reader_.map_.ranks[rank_];
  const std::string found = may_be_zeros_ ? zero_hash : hash_.text();
  const std::string& expected = regions.regions[entry_].hash;
  if (found == expected) return;
  fail_checksum(fmt::format("{} of {}", reader_.map_.entries[entry_].name, reader_.path_of(regions.file)), found,
                expected);
}

std::vector<std::vector<int>> writers_of_files(const FileMap& map) {
  std::vector<std::vector<int>> writers(map.files.size());
  for (std::size_t rank = 0; rank < map.ranks.size(); ++rank) {
    if (const int file = map.ranks[rank].file; file >= 0) {
      writers[file].push_back(static_cast<int>(rank));
    }
  }
  return writers;
}

}  // namespace sft::checkpoint
