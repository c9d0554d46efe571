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

std::string save(const std::string& output_dir, const config::Config& config, const std::string& tokenizer,
                 const mesh::Place& place, const mesh::Groups& groups, const State& state, const Position& position,
                 device::Device& device, device::Stream& stream) {
  const std::string folder = path_of(output_dir, position.step);
  const std::string temporary = temporary_path(folder);
  const bool is_writer = std::ranges::any_of(
      state.entries(), [&](const Entry& entry) { return place.owns_shard(entry.shard_map->shard_axes()); });
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

  // 2. Shard files, by the ranks that together hold every parameter.
  ShardFile written;
  agree([&] {
    if (!is_writer) return;
    ShardFileSink sink(temporary, shard_file_name(place.rank()), state.entries());
    save_entries(state, sink, device, stream);
    written = sink.finish();
  });
  std::vector<ShardFile> files;
  for (const std::string& line : groups.world.all_gather(is_writer ? to_text(written) : "")) {
    if (!line.empty()) files.push_back(parse_shard_files(line, temporary).front());
  }

  // 3. The whole tensors over the shard files, and the name that says complete.
  std::string date;
  agree([&] {
    if (!is_first) return;
    const std::string index_file = index_path(temporary);
    io::Hdf5File index = io::Hdf5File::create(index_file, io::seal_bytes);
    date = write_attributes(index, config, tokenizer, place.layout().describe(), position, files);
    index.close();
    write_index_tensors(index_file, state.entries());
    io::seal(index_file);
    io::sync_path(index_file);
    commit_folder(folder);
  });

  // 4. Room for the next one.
  groups.world.agree([&] {
    if (!is_first) return;
    prune(folder, position.lineage, config.checkpoint.save_total_limit, position.decisions.best_checkpoint);
  });
  return date;
}

}  // namespace sft::checkpoint
