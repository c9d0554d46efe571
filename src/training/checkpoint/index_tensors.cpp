// SPDX-License-Identifier: Apache-2.0
#include "index_tensors.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "entry_parts.hpp"
#include "folder.hpp"
#include "rectangles.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "shard_layout.hpp"

namespace sft::checkpoint {

namespace {

constexpr std::size_t most_pieces = 2048;           ///< of all tensors, to be few
constexpr std::size_t most_pieces_of_tensor = 128;  ///< and of one

/// The datasets of an entry in the shard files: where each begins, and how many elements it has.
struct FileDataset {
  std::uint64_t begin = 0;
  std::int64_t size = 0;
};

std::vector<FileDataset> datasets_of(const FileMap& map, std::size_t entry) {
  std::vector<FileDataset> datasets(map.files.size());
  for (const RankRegions& rank : map.ranks) {
    if (rank.file < 0) continue;
    const StoredRegion& region = rank.regions[entry];
    if (region.num_elements == 0) continue;
    FileDataset& dataset = datasets[rank.file];
    dataset.begin = dataset.size == 0 ? region.begin : std::min(dataset.begin, region.begin);
    dataset.size += region.num_elements;
  }
  return datasets;
}

/// Calls visit(tensor, rectangles, rank, first element of the rank's region) for each piece of an entry that lies in
/// one region without a gap, until it returns false.
template <class Visit>
void for_each_mapping(const FileMap& map, const MappedEntry& entry, const Visit& visit) {
  EntryParts parts(map, entry);
  for (const int owner : parts.owners()) {
    const EntryParts::Shard& shard = parts.shard(owner);
    for (int replica = 0; replica < parts.num_replicas(); ++replica) {
      const Region region = region_of(shard.num_elements, parts.num_replicas(), replica);
      if (region.count == 0) continue;
      std::vector<io::Rectangle> rectangles;
      std::int64_t begin = 0;  // of the rectangles in the region
      for (std::size_t i = 0; i < shard.parts.size(); ++i) {
        const FilePart& part = shard.parts[i];
        const std::int64_t from = std::max(part.position, region.begin);
        const std::int64_t to = std::min(part.position + part.where.num_elements(), region.begin + region.count);
        if (from < to) {
          if (rectangles.empty()) begin = from - region.begin;
          const auto own = rectangles_of(part.where, from - part.position, to - from);
          rectangles.insert(rectangles.end(), own.begin(), own.end());
        }
        const bool is_last = i + 1 == shard.parts.size() || shard.parts[i + 1].tensor != part.tensor;
        const bool is_in_row_order = !is_last && follows(part.where, shard.parts[i + 1].where);
        if (rectangles.empty() || is_in_row_order) continue;
        if (!visit(part.tensor, std::exchange(rectangles, {}), parts.replica(owner, replica), begin)) return;
      }
    }
  }
}

/// The pieces of every tensor of an entry.
std::vector<std::vector<io::VirtualPiece>> pieces_of(const FileMap& map, std::size_t number) {
  const MappedEntry& entry = map.entries[number];
  std::vector<std::string> names;
  for (const MappedEntry& other : map.entries) names.push_back(other.name);
  const std::string dataset = fmt::format("/{}", dataset_names(names)[number]);
  const std::vector<FileDataset> datasets = datasets_of(map, number);
  std::vector<std::vector<io::VirtualPiece>> pieces(entry.tensors.size());
  for_each_mapping(map, entry, [&](int tensor, std::vector<io::Rectangle> rectangles, int rank, std::int64_t begin) {
    const RankRegions& regions = map.ranks[rank];
    const std::size_t file = regions.file;
    const std::uint64_t bytes_before = regions.regions[number].begin - datasets[file].begin;
    const std::int64_t before = static_cast<std::int64_t>(bytes_before / size_of(entry.dtype));
    pieces[tensor].push_back({.targets = std::move(rectangles),
                              .source_file = map.files[file].name,
                              .source_dataset = dataset,
                              .source_begin = before + begin,
                              .source_size = datasets[file].size});
    return true;
  });
  return pieces;
}

}  // namespace

bool has_few_pieces(const FileMap& map) {
  std::size_t num_pieces = 0;
  bool are_few = true;
  for (const MappedEntry& entry : map.entries) {
    std::vector<std::size_t> of_tensor(entry.tensors.size());
    if (are_few) {
      for_each_mapping(map, entry, [&](int tensor, const std::vector<io::Rectangle>&, int, std::int64_t) {
        are_few = ++num_pieces <= most_pieces && ++of_tensor[tensor] <= most_pieces_of_tensor;
        return are_few;
      });
    }
  }
  return are_few;
}

void write_tensor_index(const std::string& folder, const FileMap& map) {
  const std::string path = tensor_index_path(folder), temporary = temporary_path(path);
  io::Hdf5File::create(temporary).close();
  for (std::size_t number = 0; number < map.entries.size(); ++number) {
    const MappedEntry& entry = map.entries[number];
    const auto pieces = pieces_of(map, number);
    // A few tensors at a time: HDF5 keeps memory for the virtual datasets it made until the file is closed.
    constexpr std::size_t tensors_at_a_time = 16;
    for (std::size_t first = 0; first < entry.tensors.size(); first += tensors_at_a_time) {
      io::Hdf5File index = io::Hdf5File::extend(temporary);
      for (std::size_t i = first; i < std::min(first + tensors_at_a_time, entry.tensors.size()); ++i) {
        const io::TensorInfo& tensor = entry.tensors[i];
        index.create_virtual_dataset("/" + tensor.name, number_of(entry.dtype), tensor.shape, pieces[i]);
      }
      index.close();
    }
  }
  io::sync_path(temporary);
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error) throw_data_error("cannot write " + path, error.message(), "check the folder's permissions");
}

std::size_t index_memory_bytes(const mesh::Place& place) {
  constexpr std::size_t bytes_of_mapping = 27U << 10U;  // while the library makes a virtual dataset; measured
  if (place.rank() != 0) return 0;
  return bytes_of_mapping * std::min(most_pieces_of_tensor, static_cast<std::size_t>(place.layout().size()));
}

}  // namespace sft::checkpoint
