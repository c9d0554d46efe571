// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes of regions, from the shard files as they are: no HDF5.

#include <cstdint>
#include <map>
#include <string>

#include "file_map.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/raw_file.hpp"

namespace sft::checkpoint {

class RegionReader {
 public:
  /// `map` outlives it.
  RegionReader(std::string folder, const FileMap& map) : folder_(std::move(folder)), map_(map) {}

  /// Elements [begin, begin + count) of what `rank` wrote of entry number `entry`, as they are stored.
  void read(int rank, std::size_t entry, std::int64_t begin, std::int64_t count, void* bytes);

  /// Refuses a file that is missing, has another size, or other bytes around its regions than were written.
  void check_file(std::size_t file);
  /// Refuses a region with other bytes than were written.
  void check_region(int rank, std::size_t entry);

  /// How often it opened a file, and how much it read of regions.
  [[nodiscard]] int num_opens() const { return num_opens_; }
  [[nodiscard]] std::uint64_t num_bytes() const { return num_bytes_; }

 private:
  friend class RegionCheck;
  [[nodiscard]] std::string path_of(std::size_t file) const;
  const io::RawFile& open(std::size_t file);

  std::string folder_;
  const FileMap& map_;
  std::map<std::size_t, io::RawFile> files_;  ///< some that were read lately
  int num_opens_ = 0;
  std::uint64_t num_bytes_ = 0;
};

/// Compares a region with its hash while it is read.
class RegionCheck {
 public:
  /// `reader` outlives it.
  RegionCheck(const RegionReader& reader, int rank, std::size_t entry);
  /// The bytes that follow on those before.
  void add(const void* bytes, std::size_t count);
  /// All were added: refuses others than were written.
  void finish() const;

 private:
  const RegionReader& reader_;
  int rank_;
  std::size_t entry_;
  bool may_be_zeros_;  ///< all should be, and all were so far
  io::ContentHash hash_;
};

/// The ranks that wrote into each file.
[[nodiscard]] std::vector<std::vector<int>> writers_of_files(const FileMap& map);

}  // namespace sft::checkpoint
