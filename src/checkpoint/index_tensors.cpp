// SPDX-License-Identifier: Apache-2.0
#include "index_tensors.hpp"

#include <algorithm>
#include <map>

#include "folder.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/io/hdf5.hpp"
#include "shard_file.hpp"

namespace sft::checkpoint {

namespace {

/// The parts of every tensor of an entry in all shard files, by parameter.
using Pieces = std::map<std::string, std::vector<io::VirtualPiece>>;

/// Adds the parts that one rank's shard file holds, where ShardFileSink put them.
void add_pieces(const std::vector<parallel::StoredPart>& parts, const std::string& shard_file, Pieces& pieces) {
  const std::int64_t size = num_owned_elements(parts);
  std::int64_t begin = 0;
  for (const parallel::StoredPart& part : parts) {
    if (!part.is_owner) continue;
    const io::Rectangle target = {part.where.row_begin, part.where.num_rows, part.where.column_begin,
                                  part.where.num_columns};
    pieces[part.parameter->name].push_back({.target = target,
                                            .source_file = shard_file,
                                            .source_dataset = "",
                                            .source_begin = begin,
                                            .source_size = size});
    begin += target.num_elements();
  }
}

/// Layouts are pure: what each rank wrote follows here, none sends it.
Pieces all_pieces(const parallel::ShardMap& shard_map, const parallel::StoredLayout& layout) {
  Pieces pieces;
  const mesh::Place& place = shard_map.place();
  for (const WorldRank rank : place.layout().ranks()) {
    if (!place.peer(rank).owns_shard(shard_map.shard_axes())) continue;
    const parallel::ShardMap map = shard_map.of_rank(rank);
    add_pieces(layout.parts(map), shard_file_name(rank), pieces);
  }
  return pieces;
}

/// A few tensors at a time: HDF5 keeps memory for the virtual datasets it made until the file is closed.
void write_entry(const std::string& index_file, const Entry& entry, Pieces& pieces) {
  constexpr std::size_t tensors_at_a_time = 16;
  const std::vector<parallel::StoredTensor> tensors = entry.layout->tensors(*entry.shard_map);
  for (std::size_t first = 0; first < tensors.size(); first += tensors_at_a_time) {
    io::Hdf5File index = io::Hdf5File::extend(index_file);
    for (std::size_t i = first; i < std::min(first + tensors_at_a_time, tensors.size()); ++i) {
      const std::string& name = tensors[i].parameter->name;
      std::vector<io::VirtualPiece>& parts = pieces[name];
      for (io::VirtualPiece& part : parts) part.source_dataset = "/" + entry.name;
      index.create_virtual_dataset("/" + entry.name + "/" + name, number_of(entry), tensors[i].shape, parts);
    }
    index.close();
  }
}

}  // namespace

void write_index_tensors(const std::string& index_file, const std::vector<Entry>& entries) {
  const Entry* last = nullptr;
  Pieces pieces;  // of `last`: entries that are cut alike follow one another
  for (const Entry& entry : entries) {
    const bool is_cut_alike = last != nullptr && entry.shard_map == last->shard_map && entry.layout == last->layout;
    if (!is_cut_alike) pieces = all_pieces(*entry.shard_map, *entry.layout);
    last = &entry;
    write_entry(index_file, entry, pieces);
  }
}

std::size_t index_memory_bytes(const parallel::ShardMap& shard_map,
                               const std::vector<const parallel::StoredLayout*>& layouts) {
  constexpr std::size_t bytes_of_mapping = 27U << 10U;  // while the library makes a virtual dataset; measured
  if (shard_map.place().rank() != 0) return 0;
  std::size_t most_bytes = 0;
  for (const parallel::StoredLayout* layout : layouts) {
    std::size_t most_mappings = 0, capacity = 0;
    for (const auto& [name, parts] : all_pieces(shard_map, *layout)) {
      most_mappings = std::max(most_mappings, parts.size());
      capacity += parts.capacity();
    }
    most_bytes = std::max(most_bytes, most_mappings * bytes_of_mapping + capacity * sizeof(io::VirtualPiece));
  }
  return most_bytes;
}

}  // namespace sft::checkpoint
