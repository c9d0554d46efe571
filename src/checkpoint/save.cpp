// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "folder.hpp"
#include "header.hpp"
#include "history.hpp"
#include "index_tensors.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/comm/session.hpp"
#include "sft/io/files.hpp"
#include "sft/io/seal.hpp"
#include "shard_file.hpp"

namespace sft::checkpoint {

Save::Save(const std::string& output_dir, const mesh::Place& place, const mesh::Groups& groups, const State& state,
           std::int64_t step)
    : folder_(path_of(output_dir, step)), place_(place), groups_(groups), entries_(state.entries()) {
  const comm::Group& world = groups_.world;
  world.agree([&] {
    if (world.rank() == 0) begin_folder(folder_);
  });
  const bool is_writer = std::ranges::any_of(
      entries_, [&](const Entry& entry) { return place.owns_shard(entry.shard_map->shard_axes()); });
  agree([&] {
    if (!is_writer) return;
    sink_ = std::make_unique<ShardFileSink>(temporary_path(folder_), shard_file_name(place.rank()), entries_);
  });
}

Save::~Save() = default;

void Save::agree(const std::function<void()>& work) {
  try {
    groups_.world.agree(work);
  } catch (const comm::SharedError&) {
    // What a failed save leaves takes room that the next try may need.
    if (groups_.world.rank() == 0) discard_folder(folder_);
    throw;
  }
}

void Save::write(const std::function<void(io::TensorSink& sink)>& give) {
  if (!sink_) return;
  give(*sink_);
  written_ = to_text(sink_->finish());
}

std::string Save::commit(const config::Config& config, const std::string& tokenizer, const Position& position,
                         const std::function<void()>& wait) {
  agree(wait);
  const std::string temporary = temporary_path(folder_);
  std::vector<ShardFile> files;
  for (const std::string& line : groups_.world.all_gather(written_)) {
    if (!line.empty()) files.push_back(parse_shard_files(line, temporary).front());
  }
  std::string date;
  agree([&] {
    if (groups_.world.rank() != 0) return;
    const std::string index_file = index_path(temporary);
    io::Hdf5File index = io::Hdf5File::create(index_file, io::seal_bytes);
    date = write_attributes(index, config, tokenizer, place_.layout().describe(), position, files);
    index.close();
    write_index_tensors(index_file, entries_);
    io::seal(index_file);
    io::sync_path(index_file);
    commit_folder(folder_);
  });
  return date;
}

void Save::prune(const std::string& folder, const Lineage& lineage, std::int64_t save_total_limit) {
  checkpoint::prune(folder, lineage, save_total_limit);
}

std::string save(const std::string& output_dir, const config::Config& config, const std::string& tokenizer,
                 const mesh::Place& place, const mesh::Groups& groups, const State& state, const Position& position,
                 device::Device& device, device::Stream& stream) {
  Save made(output_dir, place, groups, state, position.step);
  const std::string date = made.commit(config, tokenizer, position, [&] {
    made.write([&](io::TensorSink& sink) { save_entries(state, sink, device, stream); });
  });
  groups.world.agree([&] {
    if (groups.world.rank() == 0) Save::prune(made.folder(), position.lineage, config.checkpoint.save_total_limit);
  });
  return date;
}

}  // namespace sft::checkpoint
