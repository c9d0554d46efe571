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
void add_pieces(const parallel::Registry& registry, const std::string& shard_file,
                std::map<std::string, std::vector<io::VirtualPiece>>& pieces) {
  for (const parallel::Piece& piece : registry.pieces()) {
    if (!piece.parameter->counts) continue;
    for (const parallel::LogicalRectangle& part : parallel::Registry::rectangles(piece)) {
      pieces[piece.parameter->name].push_back(
          {.target = {part.row_begin, part.num_rows, part.column_begin, part.num_columns},
           .source_file = shard_file,
           .source_dataset = "",
           .source_begin = part.shard_offset,
           .source_size = registry.rank_shard_elements()});
    }
  }
}

/// The parts of every parameter in all shard files. Registries are pure: each rank's is made here, none is sent.
std::map<std::string, std::vector<io::VirtualPiece>> all_pieces(const mesh::Mesh& mesh,
                                                                const parallel::Registry& registry) {
  std::map<std::string, std::vector<io::VirtualPiece>> pieces;
  const int fsdp_size = mesh.fsdp.size();
  const int tp_size = mesh.tp.size();
  for (int fsdp_rank = 0; fsdp_rank < fsdp_size; ++fsdp_rank) {
    for (int tp_rank = 0; tp_rank < tp_size; ++tp_rank) {
      const parallel::Registry peer(registry.units(), tp_size, tp_rank, mesh.kv_replicas.size(), fsdp_size, fsdp_rank);
      add_pieces(peer, shard_name(fsdp_rank * tp_size + tp_rank), pieces);
    }
  }
  return pieces;
}

/// Adds the virtual datasets, a unit at a time: HDF5 keeps memory for those it made until the file is closed.
void write_tensors(const std::string& index_file, const mesh::Mesh& mesh, const parallel::Registry& registry) {
  std::map<std::string, std::vector<io::VirtualPiece>> pieces = all_pieces(mesh, registry);
  for (const char* group : group_names) {
    for (const parallel::Unit& unit : registry.units()) {
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

std::size_t index_memory_bytes(const mesh::Mesh& mesh, const parallel::Registry& registry) {
  constexpr std::size_t bytes_of_mapping = 27U << 10U;  // while the library makes a virtual dataset; measured
  if (mesh.world.rank() != 0) return 0;
  std::size_t most_mappings = 0, capacity = 0;
  for (const auto& [name, parts] : all_pieces(mesh, registry)) {
    most_mappings = std::max(most_mappings, parts.size());
    capacity += parts.capacity();
  }
  return most_mappings * bytes_of_mapping + capacity * sizeof(io::VirtualPiece);
}

void save(const std::string& output_dir, const config::Config& config, const std::string& tokenizer,
          const mesh::Mesh& mesh, const parallel::Registry& registry, const State& state, const Position& position,
          device::Device& device, device::Stream& stream) {
  const std::string folder = path_of(output_dir, position.step);
  const std::string temporary = temporary_path(folder);
  const bool is_writer = mesh.replicate.rank() == 0;
  const bool is_first = mesh.world.rank() == 0;

  // What a failed save leaves takes room that the next try may need.
  const auto agree = [&](const std::function<void()>& work) {
    try {
      mesh.world.agree(work);
    } catch (const comm::SharedError&) {
      if (is_first) discard_folder(folder);
      throw;
    }
  };

  // 1. An empty folder.
  mesh.world.agree([&] {
    if (is_first) begin_folder(folder);
  });

  // 2. Shards, by the ranks that together hold every parameter.
  Shard shard;
  agree([&] {
    if (is_writer) shard = write_shard(temporary, shard_name(mesh.parameters.rank()), state, device, stream);
  });
  std::vector<Shard> shards;
  if (is_writer) {
    for (const std::string& line : mesh.parameters.all_gather(to_text(shard))) {
      shards.push_back(parse_shards(line, temporary).front());
    }
  }

  // 3. The whole tensors over the shards, and the name that says complete.
  agree([&] {
    if (!is_first) return;
    const std::string index_file = index_path(temporary);
    io::Hdf5File index = io::Hdf5File::create(index_file, io::seal_bytes);
    write_attributes(index, config, tokenizer, mesh.layout.describe(), position, shards);
    index.close();
    write_tensors(index_file, mesh, registry);
    io::seal(index_file);
    io::sync_path(index_file);
    commit_folder(folder);
  });

  // 4. Room for the next one.
  mesh.world.agree([&] {
    if (is_first) prune(folder, position.lineage, config.checkpoint.save_total_limit);
  });
}

}  // namespace sft::checkpoint
