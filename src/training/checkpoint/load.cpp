// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "four_bit_parts.hpp"
#include "header.hpp"
#include "index_tensors.hpp"
#include "loader.hpp"
#include "map_source.hpp"
#include "own_parts.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "shard_file.hpp"
#include "shared_reads.hpp"

namespace sft::checkpoint {

namespace {

/// Which entries of a checkpoint may be left.
enum class Others { refused, ignored };

/// Refuses a checkpoint with an entry that the state lacks: a run that went on without it would not be the same run.
void check_no_other_entries(const io::TensorSource& source, const std::vector<Entry>& entries) {
  for (const io::TensorInfo& tensor : source.tensors()) {
    const std::string name = io::entry_of(tensor.name);
    if (std::ranges::find(entries, name, &Entry::name) != entries.end()) continue;
    throw_data_error(source.path() + " does not fit the run", "it holds " + name + ", which this run does not keep",
                     "use the configuration that it was written with");
  }
}

void check_source(const io::TensorSource& source, const std::vector<Entry>& entries, Others others) {
  check_entries(source, entries);
  if (others == Others::refused) check_no_other_entries(source, entries);
}

/// What rank 0 read of checkpoint.h5, for all ranks.
struct Opened {
  std::int64_t format_version = 0;
  Position position;
  std::vector<ShardFile> files;
  std::string map;
};

/// A checkpoint of format version 1: whole tensors by its index.
void load_version_1(const std::string& folder, const Opened& opened, const comm::Group& world, const State& state,
                    device::Device& device, device::Stream& stream, LoadedWeights& seen) {
  std::optional<IndexSource> source;
  world.agree([&] {
    source.emplace(open_index(folder));
    const std::size_t step = world.size();
    for (std::size_t i = world.rank(); i < opened.files.size(); i += step) {
      check_contents(folder, opened.files[i]);
    }
  });
  load_shared(*source, world, state, device, stream, seen);
}

/// The number of the entry of `map` whose shards are those of `entry`, if there is one.
std::optional<std::size_t> find_same_shards(const FileMap& map, const Entry& entry) {
  for (std::size_t i = 0; i < map.entries.size(); ++i) {
    if (entry.four_bits == nullptr && map.entries[i].name == entry.name && has_same_shards(map, map.entries[i], entry))
      return i;
  }
  return std::nullopt;
}

/// One of version 2: by its map.
void load_version_2(const std::string& folder, const Opened& opened, const comm::Group& world, const State& state,
                    device::Device& device, device::Stream& stream, LoadedWeights& seen) {
  // 1. Every file is there, and what is not hashed while it is read is as it was written.
  std::unique_ptr<MapSource> source;
  std::vector<std::optional<std::size_t>> same;  // the number in the map of what has the same shards as an entry
  world.agree([&] {
    source = std::make_unique<MapSource>(folder, parse_file_map(opened.map, opened.files, (folder + "/checkpoint.h5")));
    const FileMap& map = source->map();
    std::set<std::size_t> read_by_tensor;
    for (const Entry& entry : state.entries()) {
      same.push_back(find_same_shards(map, entry));
      if (same.back()) continue;
      for (std::size_t i = 0; i < map.entries.size(); ++i) {
        if (map.entries[i].name == entry.name) read_by_tensor.insert(i);
      }
    }
    const auto writers = writers_of_files(map);
    for (std::size_t file = 0; file < writers.size(); ++file) {
      if (writers[file].empty() || writers[file].front() % world.size() != world.rank()) continue;
      source->regions().check_file(file);
      for (const std::size_t number : read_by_tensor) {
        for (const int writer : writers[file]) source->regions().check_region(writer, number);
      }
    }
  });

  // 2. The numbers.
  AllSharers sharers(world, state.entries());
  Loader loader(sharers, device, stream, seen);
  for (std::size_t i = 0; i < same.size(); ++i) {
    const Entry& entry = state.entries()[i];
    if (entry.four_bits != nullptr) {
      sharers.of(entry).apply([&] { load_four_bits(*source, entry, device, stream, seen); });
      continue;
    }
    loader.clear_padding(entry);
    const std::vector<OwnPart> own = own_parts(entry);
    if (same[i]) {
      loader.load_regions(*source, entry, *same[i], own);
    } else {
      loader.load_parts(*source, entry, own);
    }
    loader.load_parts(*source, entry, other_parts(entry));
  }
  world.agree([&] {
    sharers.rethrow();
    state.refresh();
  });
}

/// Reads checkpoint.h5 on rank 0 for all. Collective over the world.
Opened open_for_all(const std::string& folder, const comm::Group& world, const std::vector<Entry>& entries,
                    Others others) {
  std::string text;
  world.agree([&] {
    if (world.rank() != 0) return;
    const io::Hdf5File index = open_index(folder);
    nlohmann::json json = {{"format_version", read_format_version(index)},
                           {"position", to_json_text(read_position(index))},
                           {"shards", index.read_string("shards")}};
    if (read_format_version(index) == 1) {
      check_source(IndexSource(open_index(folder)), entries, others);
    } else {
      json["map"] = index.read_string("map");
      check_source(MapSource(folder, read_file_map(index)), entries, others);
    }
    text = json.dump();
  });
  world.broadcast(text, 0);
  const nlohmann::json json = nlohmann::json::parse(text);
  return {.format_version = json.at("format_version").get<std::int64_t>(),
          .position = position_of_json(json.at("position").get<std::string>()),
          .files = parse_shard_files(json.at("shards").get<std::string>(), folder),
          .map = json.value("map", "")};
}

Position read_entries(const std::string& folder, const comm::Group& world, const State& state, device::Device& device,
                      device::Stream& stream, LoadedWeights& seen, Others others) {
  const Opened opened = open_for_all(folder, world, state.entries(), others);
  const auto load_it = opened.format_version == 1 ? load_version_1 : load_version_2;
  load_it(folder, opened, world, state, device, stream, seen);
  seen.check_zeros(folder, state, world);
  return opened.position;
}

}  // namespace

void load_shared(const io::TensorSource& source, const comm::Group& world, const State& state, device::Device& device,
                 device::Stream& stream, LoadedWeights& seen) {
  AllSharers sharers(world, state.entries());
  Loader loader(sharers, device, stream, seen);
  for (const Entry& entry : state.entries()) {
    if (entry.four_bits != nullptr) {
      sharers.of(entry).apply([&] { load_four_bits(source, entry, device, stream, seen); });
      continue;
    }
    loader.clear_padding(entry);
    loader.load_parts(source, entry, own_parts(entry));
    loader.load_parts(source, entry, other_parts(entry));
  }
  world.agree([&] {
    sharers.rethrow();
    state.refresh();
  });
}

Position load(const std::string& folder, const comm::Group& world, const State& state, device::Device& device,
              device::Stream& stream) {
  LoadedWeights seen;
  return read_entries(folder, world, state, device, stream, seen, Others::refused);
}

void load_weights(const std::string& folder, const comm::Group& world, const State& weights, device::Device& device,
                  device::Stream& stream, LoadedWeights& seen) {
  static_cast<void>(read_entries(folder, world, weights, device, stream, seen, Others::ignored));
}

}  // namespace sft::checkpoint
