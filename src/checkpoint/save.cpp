#include <algorithm>
#include <functional>
#include <map>

#include "folder.hpp"
#include "header.hpp"
#include "history.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/comm/session.hpp"
#include "sft/io/files.hpp"
#include "sft/io/seal.hpp"
#include "shard.hpp"

namespace sft::checkpoint {

namespace {

std::vector<std::int64_t> shape_of(const parallel::Parameter& parameter) {
  if (parameter.is_vector()) return {parameter.rows};
  return {parameter.rows, parameter.columns};
}

/// The parts of every parameter that one rank's shard file holds, by name.
void add_pieces(const parallel::ShardMap& shard_map, const std::string& shard_file,
                std::map<std::string, std::vector<io::VirtualPiece>>& pieces) {
  for (const parallel::Piece& piece : shard_map.pieces()) {
    if (!piece.parameter->is_owner) continue;
    for (const parallel::LogicalRectangle& part : parallel::ShardMap::rectangles(piece)) {
      pieces[piece.parameter->name].push_back(
          {.target = {part.row_begin, part.num_rows, part.column_begin, part.num_columns},
           .source_file = shard_file,
           .source_dataset = "",
           .source_begin = part.shard_offset,
           .source_size = shard_map.rank_shard_elements()});
    }
  }
}

/// The ranks of the first replica, which together hold every parameter: world ranks [0, n).
int num_writers(const mesh::Layout& layout) { return layout.size() / layout.dp_replicate; }

/// The parts of every parameter in all shard files. ShardMaps are pure: each rank's is made here, none is sent.
std::map<std::string, std::vector<io::VirtualPiece>> all_pieces(const mesh::Place& place,
                                                                const parallel::ShardMap& shard_map) {
  std::map<std::string, std::vector<io::VirtualPiece>> pieces;
  const mesh::Layout& layout = place.layout();
  for (int rank = 0; rank < num_writers(layout); ++rank) {
    add_pieces(parallel::ShardMap(shard_map.units(), place.peer(rank)), shard_name(rank), pieces);
  }
  return pieces;
}

/// Adds the virtual datasets, a unit at a time: HDF5 keeps memory for those it made until the file is closed.
void write_tensors(const std::string& index_file, const mesh::Place& place, const parallel::ShardMap& shard_map) {
  std::map<std::string, std::vector<io::VirtualPiece>> pieces = all_pieces(place, shard_map);
  for (const char* group : group_names) {
    for (const parallel::Unit& unit : shard_map.units()) {
      io::Hdf5File index = io::Hdf5File::extend(index_file);
      for (const parallel::Parameter& parameter : unit.parameters) {
        std::vector<io::VirtualPiece>& parts = pieces[parameter.name];
        for (io::VirtualPiece& part : parts) part.source_dataset = std::string("/") + group;
        index.create_virtual_dataset(std::string("/") + group + "/" + parameter.name, shape_of(parameter), parts);
      }
      index.close();
    }
  }
}

}  // namespace

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

void save(const std::string& output_dir, const config::Config& config, const std::string& tokenizer,
          const mesh::Place& place, const mesh::Groups& groups, const parallel::ShardMap& shard_map, const State& state,
          const Position& position, device::Device& device, device::Stream& stream) {
  const std::string folder = path_of(output_dir, position.step);
  const std::string temporary = temporary_path(folder);
  const bool is_writer = place.owns_shard();
  const bool is_first = groups.world.rank() == 0;

  // What a failed save leaves takes room that the next try may need.
  const auto agree = [&](const std::function<void()>& work) {
    try {
      groups.world.agree(work);
    } catch (const comm::SharedError&) {
      if (is_first) discard_folder(folder);
      throw;
    }
  };

  // 1. An empty folder.
  groups.world.agree([&] {
    if (is_first) begin_folder(folder);
  });

  // 2. Shards, by the ranks that together hold every parameter.
  Shard shard;
  agree([&] {
    if (is_writer) shard = write_shard(temporary, shard_name(place.rank()), state, device, stream);
  });
  std::vector<Shard> shards;
  for (const std::string& line : groups.world.all_gather(is_writer ? to_text(shard) : "")) {
    if (!line.empty()) shards.push_back(parse_shards(line, temporary).front());
  }

  // 3. The whole tensors over the shards, and the name that says complete.
  agree([&] {
    if (!is_first) return;
    const std::string index_file = index_path(temporary);
    io::Hdf5File index = io::Hdf5File::create(index_file, io::seal_bytes);
    write_attributes(index, config, tokenizer, place.layout().describe(), position, shards);
    index.close();
    write_tensors(index_file, place, shard_map);
    io::seal(index_file);
    io::sync_path(index_file);
    commit_folder(folder);
  });

  // 4. Room for the next one.
  groups.world.agree([&] {
    if (is_first) prune(folder, position.lineage, config.checkpoint.save_total_limit);
  });
}

}  // namespace sft::checkpoint
