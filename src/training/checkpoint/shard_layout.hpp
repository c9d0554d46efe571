// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shard files of format version 2: HDF5 files with a flat dataset for each entry, laid out before anything is written,
// into which the ranks of a node write their regions. Besides the regions, all bytes of a file are there when it is
// laid out; the map has a hash of them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "file_map.hpp"
#include "sft/io/hdf5.hpp"
#include "sft/io/raw_file.hpp"

namespace sft::checkpoint {

/// Who writes into which file: the ranks of a node, in their order, share its files evenly.
struct FileGroups {
  std::vector<std::vector<int>> members;  ///< of each file, ascending
  std::vector<int> file_of_rank;          ///< -1: the rank writes nothing
};
/// `hosts`: the node of each rank. `files_per_node`: at most so many; 0: a file for each rank that writes.
[[nodiscard]] FileGroups group_files(const std::vector<std::string>& hosts, const std::vector<bool>& writes,
                                     std::int64_t files_per_node);

/// The type of stored numbers in HDF5 files.
[[nodiscard]] io::Number number_of(DType dtype);

/// What the dataset of an entry is called, and of what numbers it is.
struct EntryType {
  std::string name;
  DType dtype = DType::float32;
};

struct LaidOutFile {
  ShardFile file;
  std::vector<std::uint64_t> begins;  ///< byte where the dataset of each entry begins
};
/// Makes the file with room for `num_elements` of each entry. Not collective.
[[nodiscard]] LaidOutFile lay_out(const std::string& folder, const std::string& name,
                                  const std::vector<EntryType>& entries, const std::vector<std::int64_t>& num_elements);

/// Neighbouring bytes of a file.
struct ByteRange {
  std::uint64_t begin = 0, count = 0;
};
/// "xxh128:..." of all bytes of a file that lie in none of `regions`.
[[nodiscard]] std::string hash_around(const io::RawFile& file, std::vector<ByteRange> regions);

}  // namespace sft::checkpoint
