// SPDX-License-Identifier: Apache-2.0
// A checkpoint of 4096 ranks, with planned places and sparse shard files: how large its map is, and what one rank of
// the same mesh and of others reads to resume.

#include <fcntl.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/file_map.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/header.hpp"
#include "checkpoint/index_tensors.hpp"
#include "checkpoint/loader.hpp"
#include "checkpoint/own_parts.hpp"
#include "checkpoint/shard_layout.hpp"
#include "checkpoint/shared_reads.hpp"
#include "sft/device/factory.hpp"
#include "support/layout.hpp"
#include "support/parameter.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace sft;
using namespace sft::checkpoint;
using parallel::TpSplit;
using test::parameter;

namespace {

constexpr int num_layers = 126, ranks_per_node = 8;
constexpr std::int64_t hidden = 2048, kv = 256, intermediate = 6656, vocabulary = 16032;

/// The units of a model with as many layers and parameters as one of 405B has, all narrower.
std::vector<parallel::Unit> wide_units() {
  std::vector<parallel::Unit> units(num_layers + 2);
  units.front().parameters = {parameter("model.embed_tokens.weight", vocabulary, hidden, TpSplit::vocab_rows)};
  for (int layer = 0; layer < num_layers; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    std::vector<parallel::Parameter>& block = units[static_cast<std::size_t>(layer + 1)].parameters;
    block = {parameter(name + "input_layernorm.weight", hidden, 0, TpSplit::none),
             parameter(name + "self_attn.q_proj.weight", hidden, hidden, TpSplit::rows),
             parameter(name + "self_attn.k_proj.weight", kv, hidden, TpSplit::kv_rows),
             parameter(name + "self_attn.v_proj.weight", kv, hidden, TpSplit::kv_rows),
             parameter(name + "self_attn.o_proj.weight", hidden, hidden, TpSplit::columns),
             parameter(name + "post_attention_layernorm.weight", hidden, 0, TpSplit::none),
             parameter(name + "mlp.gate_proj.weight", intermediate, hidden, TpSplit::rows),
             parameter(name + "mlp.up_proj.weight", intermediate, hidden, TpSplit::rows),
             parameter(name + "mlp.down_proj.weight", hidden, intermediate, TpSplit::columns)};
    for (parallel::Parameter& p : block) p.num_kv_heads = p.split == TpSplit::kv_rows ? 8 : 0;
    for (const std::size_t joined : {2U, 3U, 7U}) block[joined].joins_previous = true;
  }
  units.back().parameters = {parameter("model.norm.weight", hidden, 0, TpSplit::none),
                             parameter("lm_head.weight", vocabulary, hidden, TpSplit::vocab_rows)};
  return units;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The map and the shard files of all ranks; nothing is in the regions but zeros.
FileMap make_checkpoint(const std::string& folder, const mesh::Layout& layout, int files_per_node) {
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
    const std::string name = shard_file_name(groups.members[file].front());
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
    std::FILE* made = std::fopen((fs::path(folder) / name).c_str(), "w");
    BOOST_REQUIRE(made != nullptr);
    std::fclose(made);
    fs::resize_file(fs::path(folder) / name, at);
  }
  return map;
}

struct Cost {
  int num_opens = 0;
  std::uint64_t num_bytes = 0, own_bytes = 0;
  double time_s = 0.0;
};

/// What rank `rank` of a mesh reads of that checkpoint.
Cost resume(const std::string& folder, const std::string& text, const std::vector<ShardFile>& files,
            const mesh::Layout& layout, int rank, bool is_same) {
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
  SeenWeights seen;
  AllSharers sharers(comm::Group(), entries);  // without replicas nobody is asked
  Loader loader(sharers, *device, *stream, seen);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::ranges::fill(memory, 1.0F);
    BOOST_TEST(has_same_shards(source.map(), source.map().entries[i], entries[i]) == is_same);
    loader.clear_padding(entries[i]);
    if (is_same) {
      loader.load_regions(source, entries[i], i, own_parts(entries[i]));
    } else {
      loader.load_parts(source, entries[i], own_parts(entries[i]));
    }
    loader.load_parts(source, entries[i], other_parts(entries[i]));
    BOOST_TEST(std::ranges::all_of(memory, [](float value) { return value == 0.0F; }));
  }
  sharers.rethrow();
  return {source.regions().num_opens(), source.regions().num_bytes(), entries.size() * memory.size() * sizeof(float),
          seconds_since(start)};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(many_writers)

BOOST_AUTO_TEST_CASE(four_thousand_ranks_write_a_small_map_and_read_their_own_bytes) {
  const test::TemporaryFolder folder;
  const test::Layout writers{1, 512, 1, 8};
  const FileMap map = make_checkpoint(folder.path(), writers, 8);

  // The map: no virtual dataset in the way, and far less than the 97 bytes of each of 4.7 million mappings.
  auto start = std::chrono::steady_clock::now();
  BOOST_TEST(!has_few_pieces(map));
  const double decide_s = seconds_since(start);
  start = std::chrono::steady_clock::now();
  (void)write_map(folder.path(), config::Config(), "byte", {}, map);
  const double write_s = seconds_since(start);
  const auto map_bytes = fs::file_size(index_path(folder.path()));
  BOOST_TEST(!fs::exists(tensor_index_path(folder.path())));
  BOOST_TEST(map_bytes < 2'000'000U);
  BOOST_TEST(decide_s + write_s < 10.0);  // some 0.1 s: what a loaded machine may make of it

  const std::string text = to_text(map);
  const Cost same = resume(folder.path(), text, map.files, writers, 1234, true);
  BOOST_TEST(same.num_opens <= 2);  // its own file, and that of the norms which the first rank of tp wrote
  BOOST_TEST(same.num_bytes <= same.own_bytes + same.own_bytes / 10);
  const auto report = [](const char* mesh, const Cost& cost) {
    BOOST_TEST_MESSAGE(mesh << ": " << cost.num_opens << " opens, " << cost.num_bytes << " bytes read for "
                            << cost.own_bytes << " of state, " << cost.time_s << " s");
  };
  BOOST_TEST_MESSAGE("4096 writers: map of " << map_bytes << " bytes in " << write_s << " s, few pieces? in "
                                             << decide_s << " s");
  report("the same mesh", same);
  // Half as many ranks, and twice as many.
  for (const test::Layout& readers : {test::Layout{1, 256, 1, 8}, test::Layout{1, 1024, 1, 8}}) {
    const Cost other = resume(folder.path(), text, map.files, readers, readers.size() / 3, false);
    report(readers.describe().c_str(), other);
    BOOST_TEST(other.num_bytes <= other.own_bytes + other.own_bytes / 10);
    BOOST_TEST(other.num_opens <= (readers[Axis::dp_shard] < 512 ? 4 : 3));
  }
}

// Where the ranks of a node share one file, replicated parameters cost no further one. Shards are padded to multiples
// of 64 elements, so what a rank of half as many holds may begin in a third shard.
BOOST_AUTO_TEST_CASE(with_a_file_for_each_node_a_rank_opens_those_that_its_pieces_lie_in) {
  const test::TemporaryFolder folder;
  const FileMap map = make_checkpoint(folder.path(), test::Layout{1, 512, 1, 8}, 1);
  const std::string text = to_text(map);
  for (const int shards : {256, 512, 1024}) {
    const test::Layout readers{1, shards, 1, 8};
    for (const int rank : {0, readers.size() / 3, readers.size() - 1}) {
      const Cost cost = resume(folder.path(), text, map.files, readers, rank, shards == 512);
      BOOST_TEST_MESSAGE(readers.describe() << ", rank " << rank << ": " << cost.num_opens << " opens");
      BOOST_TEST(cost.num_opens <= (shards < 512 ? 3 : shards == 512 ? 1 : 2));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
