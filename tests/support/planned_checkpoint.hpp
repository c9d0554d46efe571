// SPDX-License-Identifier: Apache-2.0
#pragma once
// A checkpoint of thousands of ranks, with planned places and sparse shard files, and what one rank reads of it.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/file_map.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/loader.hpp"
#include "checkpoint/own_parts.hpp"
#include "checkpoint/shard_layout.hpp"
#include "checkpoint/shared_reads.hpp"
#include "sft/device/factory.hpp"
#include "sft/io/raw_file.hpp"
#include "support/parameter.hpp"

namespace sft::test {

inline constexpr int num_layers = 126, ranks_per_node = 8;
inline constexpr std::int64_t hidden = 2048, kv = 256, intermediate = 6656, vocabulary = 16032;

/// The units of a model with as many layers and parameters as one of 405B has, all narrower.
inline std::vector<parallel::Unit> wide_units() {
  std::vector<parallel::Unit> units(num_layers + 2);
  units.front().parameters = {
      parameter("model.embed_tokens.weight", vocabulary, hidden, parallel::TpSplit::vocab_rows)};
  for (int layer = 0; layer < num_layers; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    std::vector<parallel::Parameter>& block = units[static_cast<std::size_t>(layer + 1)].parameters;
    block = {parameter(name + "input_layernorm.weight", hidden, 0, parallel::TpSplit::none),
             parameter(name + "self_attn.q_proj.weight", hidden, hidden, parallel::TpSplit::rows),
             parameter(name + "self_attn.k_proj.weight", kv, hidden, parallel::TpSplit::kv_rows),
             parameter(name + "self_attn.v_proj.weight", kv, hidden, parallel::TpSplit::kv_rows),
             parameter(name + "self_attn.o_proj.weight", hidden, hidden, parallel::TpSplit::columns),
             parameter(name + "post_attention_layernorm.weight", hidden, 0, parallel::TpSplit::none),
             parameter(name + "mlp.gate_proj.weight", intermediate, hidden, parallel::TpSplit::rows),
             parameter(name + "mlp.up_proj.weight", intermediate, hidden, parallel::TpSplit::rows),
             parameter(name + "mlp.down_proj.weight", hidden, intermediate, parallel::TpSplit::columns)};
    for (parallel::Parameter& p : block) p.num_kv_heads = p.split == parallel::TpSplit::kv_rows ? 8 : 0;
    for (const std::size_t joined : {2U, 3U, 7U}) block[joined].joins_previous = true;
  }
  units.back().parameters = {parameter("model.norm.weight", hidden, 0, parallel::TpSplit::none),
                             parameter("lm_head.weight", vocabulary, hidden, parallel::TpSplit::vocab_rows)};
  return units;
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The map and the shard files of all ranks; nothing is in the regions but zeros.
inline checkpoint::FileMap make_checkpoint(const std::string& folder, const mesh::Layout& layout, int files_per_node) {
  using namespace checkpoint;
  FileMap map;
  map.layout = layout;
  map.cuts.push_back({fsdp_axes, wide_units()});
  std::vector<EntryType> types;
  for (const char* name : {"model", "exp_avg", "exp_avg_sq"}) {
    types.push_back({name, DType::float32});
    map.entries.push_back(
        {.name = name, .dtype = DType::float32, .cut = 0, .tensors = {}, .is_as_parameters = true, .parts = {}});
    for (const parallel::Unit& unit : map.cuts[0].units) {
      for (const parallel::Parameter& p : unit.parameters) {
        map.entries.back().tensors.push_back({std::string(name) + "/" + p.name, parallel::shape_of(p), DType::float32});
      }
    }
  }
  EntryParts parts(map, map.entries[0]);
  const std::string hash = "xxh128:00000000000000000000000000000000";  // as long as others
  std::vector<std::string> hosts;
  for (int rank = 0; rank < layout.size(); ++rank) hosts.push_back("node" + std::to_string(rank / ranks_per_node));
  map.ranks.resize(static_cast<std::size_t>(layout.size()));
  const FileGroups groups = group_files(hosts, std::vector<bool>(hosts.size(), true), files_per_node);
  for (std::size_t file = 0; file < groups.members.size(); ++file) {
    const std::string name = shard_file_name("shard-000100-0123456789abcdef-", groups.members[file].front());
    std::uint64_t at = 4096;
    for (std::size_t entry = 0; entry < types.size(); ++entry) {
      for (const int rank : groups.members[file]) {
        const int owner = owner_of(layout, replica_axes.without(fsdp_axes), rank);
        const int replica = mesh::Place(layout, WorldRank::from(rank)).rank(replica_axes.without(fsdp_axes));
        const Region region = region_of(parts.shard(owner).num_elements, parts.num_replicas(), replica);
        RankRegions& regions = map.ranks[static_cast<std::size_t>(rank)];
        regions.file = static_cast<int>(file);
        regions.regions.push_back({.begin = at, .num_elements = region.count, .hash = zero_hash});
        at += static_cast<std::uint64_t>(region.count) * sizeof(float);
      }
    }
    map.files.push_back({name, static_cast<std::int64_t>(at), hash});
    (void)io::RawFile::create(folder + "/" + name, at);
  }
  return map;
}

struct Cost {
  int num_opens = 0;
  std::uint64_t num_bytes = 0, own_bytes = 0;
  double time_s = 0.0;
  bool is_as_expected = true;  ///< all numbers were read, and the shards are the writers' or not, as was said
};

/// What rank `rank` of a mesh reads of that checkpoint.
inline Cost resume(const std::string& folder, const std::string& text, const std::vector<checkpoint::ShardFile>& files,
                   const mesh::Layout& layout, int rank, bool is_same) {
  using namespace checkpoint;
  const auto start = std::chrono::steady_clock::now();
  const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
  const std::unique_ptr<device::Stream> stream = device->make_stream();
  MapSource source(folder, parse_file_map(text, files, folder));
  const parallel::ShardMap shard_map(wide_units(), mesh::Place(layout, WorldRank::from(rank)));
  std::vector<float> memory(static_cast<std::size_t>(shard_map.rank_shard_elements()), 1.0F);
  std::vector<Entry> entries;
  for (const char* name : {"model", "exp_avg", "exp_avg_sq"}) {
    entries.push_back({name, &shard_map, Tensor(memory.data(), DType::float32, {std::ssize(memory)})});
  }
  Cost cost;
  LoadedWeights seen;
  AllSharers sharers(comm::Group(), entries);  // without replicas nobody is asked
  Loader loader(sharers, *device, *stream, seen);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::ranges::fill(memory, 1.0F);
    cost.is_as_expected =
        cost.is_as_expected && has_same_shards(source.map(), source.map().entries[i], entries[i]) == is_same;
    loader.clear_padding(entries[i]);
    if (is_same) {
      loader.load_regions(source, entries[i], i, own_parts(entries[i]));
    } else {
      loader.load_parts(source, entries[i], own_parts(entries[i]));
    }
    loader.load_parts(source, entries[i], other_parts(entries[i]));
    cost.is_as_expected = cost.is_as_expected && std::ranges::all_of(memory, [](float value) { return value == 0.0F; });
  }
  sharers.rethrow();
  cost.num_opens = source.regions().num_opens();
  cost.num_bytes = source.regions().num_bytes();
  cost.own_bytes = entries.size() * memory.size() * sizeof(float);
  cost.time_s = seconds_since(start);
  return cost;
}

}  // namespace sft::test
