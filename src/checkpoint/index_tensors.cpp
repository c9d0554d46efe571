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

using Pieces = std::map<std::string, std::vector<io::VirtualPiece>>;  ///< of every parameter, by name

/// Adds the parts that one rank's shard file holds, where ShardFileSink put them.
void add_pieces(const parallel::ShardMap& shard_map, const std::string& shard_file, Pieces& pieces) {
  const std::int64_t size = num_owned_elements(shard_map);
  std::int64_t begin = 0;
  for (const parallel::Piece& piece : shard_map.pieces()) {
    if (!piece.parameter->is_owner) continue;
    for (const parallel::LogicalRectangle& part : parallel::ShardMap::rectangles(piece)) {
      const io::Rectangle target = {part.row_begin, part.num_rows, part.column_begin, part.num_columns};
      pieces[piece.parameter->name].push_back({.target = target,
                                               .source_file = shard_file,
                                               .source_dataset = "",
                                               .source_begin = begin,
                                               .source_size = size});
      begin += target.num_elements();
    }
  }
}

/// The parts of every parameter in the shard files of all ranks that wrote one. ShardMaps are pure: each rank's is made
/// here, none is sent.
Pieces all_pieces(const mesh::Place& place, const parallel::ShardMap& shard_map) {
  Pieces pieces;
  for (int rank = 0; rank < place.layout().size(); ++rank) {
    const mesh::Place writer = place.peer(rank);
    if (!writer.owns_shard(shard_map.shard_axes())) continue;
    add_pieces(parallel::ShardMap(shard_map.units(), writer, shard_map.shard_axes()), shard_file_name(rank), pieces);
  }
  return pieces;
}

/// A unit at a time: HDF5 keeps memory for the virtual datasets it made until the file is closed.
void write_entry(const std::string& index_file, const Entry& entry, Pieces& pieces) {
  for (const parallel::Unit& unit : entry.shard_map->units()) {
    io::Hdf5File index = io::Hdf5File::extend(index_file);
    for (const parallel::Parameter& parameter : unit.parameters) {
      std::vector<io::VirtualPiece>& parts = pieces[parameter.name];
      for (io::VirtualPiece& part : parts) part.source_dataset = "/" + entry.name;
      std::vector<std::int64_t> shape = {parameter.rows};
      if (!parameter.is_vector()) shape.push_back(parameter.columns);
      index.create_virtual_dataset("/" + entry.name + "/" + parameter.name, shape, parts);
    }
    index.close();
  }
}

}  // namespace

void write_index_tensors(const std::string& index_file, const mesh::Place& place, const std::vector<Entry>& entries) {
  const parallel::ShardMap* mapped = nullptr;
  Pieces pieces;  // of `mapped`: entries that are cut alike follow one another
  for (const Entry& entry : entries) {
    if (entry.shard_map != mapped) pieces = all_pieces(place, *entry.shard_map);
    mapped = entry.shard_map;
    write_entry(index_file, entry, pieces);
  }
}

std::size_t index_memory_bytes(const mesh::Place& place, const parallel::ShardMap& shard_map) {
  constexpr std::size_t bytes_of_mapping = 27U << 10U;  // while the library makes a virtual dataset; measured
  if (place.rank() != 0) return 0;
  std::size_t most_mappings = 0, capacity = 0;
  for (const auto& [name, parts] : all_pieces(place, shard_map)) {
    most_mappings = std::max(most_mappings, parts.size());
    capacity += parts.capacity();
  }
  return most_mappings * bytes_of_mapping + capacity * sizeof(io::VirtualPiece);
}

}  // namespace sft::checkpoint
