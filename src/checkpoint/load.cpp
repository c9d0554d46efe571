// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <optional>

#include "header.hpp"
#include "index_tensors.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "shard_file.hpp"

namespace sft::checkpoint {

namespace {

/// Refuses a checkpoint with an entry that the state lacks: a run that went on without it would not be the same run.
void check_no_other_entries(const io::TensorSource& source, const std::vector<Entry>& entries) {
  for (const io::TensorInfo& tensor : source.tensors()) {
    const std::string name = io::entry_of(tensor.name);
    if (std::ranges::find(entries, name, &Entry::name) != entries.end()) continue;
    throw_data_error(source.path() + " does not fit the run", "it holds " + name + ", which this run does not keep",
                     "use the configuration that it was written with");
  }
}

/// Reads the entries of `state`; `check` is called on rank 0 when they are there. Collective over the world.
Position read_entries(const std::string& folder, const comm::Group& world, const State& state, device::Device& device,
                      device::Stream& stream, SeenWeights& seen,
                      const std::function<void(const io::TensorSource&)>& check) {
  std::optional<IndexSource> source;
  Position position;

  // 1. The right tensors, and every shard file as it was written: the ranks share the reading of the files.
  world.agree([&] {
    source.emplace(open_index(folder));
    position = read_position(source->index());
    if (world.rank() == 0) {
      check_entries(*source, state.entries());
      check(*source);
    }
    const std::vector<ShardFile> files = read_shard_files(source->index());
    const std::size_t step = world.size();
    for (std::size_t i = world.rank(); i < files.size(); i += step) {
      check_contents(folder, files[i]);
    }
  });

  // 2. The pieces of this rank.
  world.agree([&] { load_entries(*source, state, device, stream, seen); });
  const auto model = std::ranges::find(state.entries(), "model", &Entry::name);
  if (model != state.entries().end()) seen.check_zeros(folder, *model->shard_map, world);
  return position;
}

}  // namespace

Position load(const std::string& folder, const comm::Group& world, const State& state, device::Device& device,
              device::Stream& stream) {
  SeenWeights seen;
  return read_entries(folder, world, state, device, stream, seen,
                      [&](const io::TensorSource& source) { check_no_other_entries(source, state.entries()); });
}

void load_weights(const std::string& folder, const comm::Group& world, const State& weights, device::Device& device,
                  device::Stream& stream, SeenWeights& seen) {
  static_cast<void>(read_entries(folder, world, weights, device, stream, seen, [](const io::TensorSource&) {}));
}

}  // namespace sft::checkpoint
