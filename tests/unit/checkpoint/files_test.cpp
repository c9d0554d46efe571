// SPDX-License-Identifier: Apache-2.0
// The map of the shard files, without ranks: who writes what, where it lies, and how it is found again.

#include <boost/test/unit_test.hpp>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/entry_parts.hpp"
#include "checkpoint/file_map.hpp"
#include "checkpoint/own_parts.hpp"
#include "checkpoint/shard_layout.hpp"
#include "sft/checkpoint/save.hpp"
#include "support/error_text.hpp"
#include "support/layout.hpp"
#include "support/parameter.hpp"
#include "support/temporary_folder.hpp"

using namespace sft;
using namespace sft::checkpoint;
using parallel::TpSplit;
using test::data_error_of;
using test::mentions;
using test::parameter;

namespace {

std::vector<parallel::Unit> mapped_units() {
  std::vector<parallel::Unit> units(2);
  units[0].parameters = {parameter("table", 50, 70, TpSplit::vocab_rows)};
  units[1].parameters = {parameter("norm", 5, 0, TpSplit::none), parameter("q", 160, 5, TpSplit::rows),
                         parameter("k", 8, 5, TpSplit::kv_rows), parameter("o", 9, 1600, TpSplit::columns)};
  units[1].parameters[2].joins_previous = true;
  return units;
}

FileMap map_of(const mesh::Layout& layout, const AxisSet& shard_axes, std::vector<parallel::Unit> units) {
  FileMap map;
  map.layout = layout;
  map.entries.push_back(
      {.name = "model", .dtype = DType::float32, .cut = 0, .tensors = {}, .is_as_parameters = true, .parts = {}});
  for (const parallel::Unit& unit : units) {
    for (const parallel::Parameter& p : unit.parameters) {
      map.entries[0].tensors.push_back({"model/" + p.name, parallel::shape_of(p), DType::float32});
    }
  }
  map.cuts.push_back({shard_axes, std::move(units)});
  return map;
}

const test::Layout mapped_layouts[] = {{1, 1, 1, 1}, {1, 3, 1, 1}, {2, 2, 1, 2}, {3, 2, 2, 4}, {1, 16, 1, 1}};

}  // namespace

BOOST_AUTO_TEST_SUITE(files)

BOOST_AUTO_TEST_CASE(regions_of_replicas_cover_a_sequence) {
  for (const std::int64_t size : {0, 1, 1023, 1024, 1025, 5000, 1 << 20}) {
    for (const int num_replicas : {1, 2, 3, 7, 32}) {
      std::int64_t end = 0;
      for (int replica = 0; replica < num_replicas; ++replica) {
        const Region region = region_of(size, num_replicas, replica);
        BOOST_TEST((region.begin == end && region.count >= 0));
        end += region.count;
        BOOST_TEST(region.count <= (size + num_replicas - 1) / num_replicas + 1023);
      }
      BOOST_TEST(end == size);
    }
  }
  BOOST_TEST(region_of(1000, 8, 0).count == 1000);  // little is not cut
}

// What a reader computes of a shard is what its writer says of its own memory; all shards together have every element.
BOOST_AUTO_TEST_CASE(readers_find_the_parts_where_writers_put_them) {
  for (const AxisSet& shard_axes : {AxisSet{}, AxisSet{Axis::dp_shard}, fsdp_axes}) {
    for (const test::Layout& layout : mapped_layouts) {
      const FileMap map = map_of(layout, shard_axes, mapped_units());
      EntryParts parts(map, map.entries[0]);
      std::map<int, std::vector<int>> times;  // by tensor
      for (const io::TensorInfo& tensor : map.entries[0].tensors) {
        times[static_cast<int>(times.size())].resize(static_cast<std::size_t>(tensor.num_elements()));
      }
      std::set<int> owners;
      for (int rank = 0; rank < layout.size(); ++rank) {
        const parallel::ShardMap shard_map(mapped_units(), mesh::Place(layout, WorldRank::from(rank)), shard_axes);
        const std::vector<OwnPart> own = own_parts({"model", &shard_map, Tensor(nullptr, DType::float32, {1})});
        const int owner = owner_of(layout, shard_map.copy_axes(), rank);
        const EntryParts::Shard& shard = parts.shard(owner);
        BOOST_REQUIRE(own.size() == shard.parts.size());
        for (std::size_t i = 0; i < own.size(); ++i) {
          const io::Rectangle &a = own[i].where, &b = shard.parts[i].where;
          BOOST_TEST(own[i].tensor == shard.parts[i].tensor);
          BOOST_TEST(own[i].position == shard.parts[i].position);
          BOOST_TEST((a.row_begin == b.row_begin && a.num_rows == b.num_rows && a.column_begin == b.column_begin &&
                      a.num_columns == b.num_columns));
        }
        if (!owners.insert(owner).second) continue;
        for (const FilePart& part : shard.parts) {
          const auto& shape = map.entries[0].tensors[static_cast<std::size_t>(part.tensor)].shape;
          const std::int64_t width = shape.size() > 1 ? shape[1] : 1;
          const auto candidates = parts.owners_of(part.tensor, part.where);
          BOOST_TEST((std::ranges::find(candidates, owner) != candidates.end()));
          for (std::int64_t row = 0; row < part.where.num_rows; ++row) {
            for (std::int64_t column = 0; column < part.where.num_columns; ++column) {
              ++times[part.tensor][static_cast<std::size_t>((part.where.row_begin + row) * width +
                                                            part.where.column_begin + column)];
            }
          }
        }
      }
      const std::vector<int> listed = parts.owners();
      BOOST_TEST((std::set<int>(listed.begin(), listed.end()) == owners));
      for (const auto& [tensor, counts] : times) {
        BOOST_TEST(std::ranges::all_of(counts, [](int count) { return count == 1; }), tensor);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(replicas_write_every_number_once) {
  const test::Layout layout{3, 2, 1, 2};
  std::map<int, std::int64_t> written;  // by owner
  for (int rank = 0; rank < layout.size(); ++rank) {
    const parallel::ShardMap map(mapped_units(), mesh::Place(layout, WorldRank::from(rank)));
    const std::vector<Entry> entries{{"model", &map, Tensor(nullptr, DType::bf16, {map.rank_shard_elements()})},
                                     {"codes", &map, Tensor(nullptr, DType::uint8, {map.rank_shard_elements()})}};
    const WritePlan plan(entries);
    const EntryWrites& model = plan.entries()[0];
    std::int64_t sum = 0;
    for (const MemoryRange& range : model.ranges) sum += range.count;
    BOOST_TEST(sum == model.num_elements);
    BOOST_TEST(model.num_bytes() == static_cast<std::size_t>(2 * sum));
    BOOST_TEST(plan.entries()[1].snapshot_begin >= model.num_bytes());
    BOOST_TEST(plan.entries()[1].snapshot_begin % 64 == 0U);
    BOOST_TEST(plan.snapshot_bytes() >= plan.entries()[1].snapshot_begin + plan.entries()[1].num_bytes());
    written[owner_of(layout, replica_axes.without(fsdp_axes), rank)] += sum;
  }
  for (const auto& [owner, sum] : written) {
    const FileMap map = map_of(layout, fsdp_axes, mapped_units());
    BOOST_TEST(EntryParts(map, map.entries[0]).shard(owner).num_elements == sum);
  }
}

BOOST_AUTO_TEST_CASE(ranks_of_a_node_share_its_files_evenly) {
  const std::vector<std::string> hosts{"b", "b", "b", "b", "b", "a", "a"};
  std::vector<bool> writes(7, true);
  using Members = std::vector<std::vector<int>>;
  BOOST_TEST((group_files(hosts, writes, 2).members == Members{{0, 1}, {2, 3, 4}, {5}, {6}}));
  BOOST_TEST((group_files(hosts, writes, 1).members == Members{{0, 1, 2, 3, 4}, {5, 6}}));
  BOOST_TEST(group_files(hosts, writes, 0).members.size() == 7U);
  writes[1] = writes[2] = writes[6] = false;
  const FileGroups some = group_files(hosts, writes, 2);
  BOOST_TEST((some.members == Members{{0}, {3, 4}, {5}}));
  BOOST_TEST((some.file_of_rank == std::vector<int>{0, -1, -1, 1, 1, 2, -1}));
}

BOOST_AUTO_TEST_CASE(a_map_is_read_as_it_was_written) {
  FileMap map = map_of(test::Layout{2, 1, 1, 1}, {Axis::dp_shard}, mapped_units());
  map.entries.push_back({.name = "scales",
                         .dtype = DType::bf16,
                         .cut = 0,
                         .tensors = {{"scales/q", {10, 2}, DType::bf16}},
                         .is_as_parameters = false,
                         .parts = {{1,
                                    {{.tensor = 0, .where = {1, 2, 0, 2}, .position = 0},
                                     {.tensor = 0, .where = {5, 1, 1, 1}, .position = 4}}}}});
  map.ranks = {{.file = -1, .regions = {{}, {}}},
               {.file = 0,
                .regions = {{.begin = 4096, .num_elements = 7, .hash = "xxh128:1"},
                            {.begin = 8192, .num_elements = 5, .hash = "xxh128:2"}}}};
  const std::vector<ShardFile> files{{"shard-00001.h5", 9000, "xxh128:3"}};
  const std::string text = to_text(map);
  const FileMap read = parse_file_map(text, files, "a.h5");
  BOOST_TEST(to_text(read) == text);
  BOOST_TEST(read.entries[0].tensors.size() == 5U);
  BOOST_TEST(read.entries[1].parts.at(1)[1].position == 4);
  BOOST_TEST(read.cuts[0].has_same_units(map.cuts[0]));
  BOOST_TEST((read.cuts[0].shard_axes == AxisSet{Axis::dp_shard}));

  // Other versions name an axis of pipelines, which has one rank.
  std::string with_pipelines = text;
  with_pipelines.insert(with_pipelines.find(R"("dp_replicate":2)"), R"("pp":1,)");
  BOOST_TEST(to_text(parse_file_map(with_pipelines, files, "a.h5")) == text);

  // What contradicts itself is refused.
  const auto error_of = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const std::size_t at = other.find(from);
    BOOST_REQUIRE(at != std::string::npos);
    other.replace(at, from.size(), to);
    return data_error_of([&] { (void)parse_file_map(other, files, "a.h5"); });
  };
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{R"("dp_replicate":2)", R"("dp_replicate":3)"},
                                                        {R"("dp_replicate":2)", R"("dp_replicate":0)"},
                                                        {R"("dp_replicate":2)", R"("dp_replicate":2,"pp":2)"},
                                                        {"[0,4096", "[1,4096"},
                                                        {"[0,4096", "[-1,4096"},
                                                        {"[0,1,2,0,2]", "[0,9,2,0,2]"},
                                                        {"[0,1,2,0,2]", "[1,1,2,0,2]"},
                                                        {R"("cut":0)", R"("cut":1)"},
                                                        {"vocab_rows", "vocab"},
                                                        {"bfloat16", "int4"},
                                                        {R"("mesh")", R"("me")"},
                                                        {"{", ""}}) {
    BOOST_TEST(mentions(error_of(from, to), {"a.h5", "map of the shard files"}), from);
  }
}

BOOST_AUTO_TEST_CASE(a_file_is_laid_out_before_it_is_written) {
  const test::TemporaryFolder folder;
  const LaidOutFile made =
      lay_out(folder.path(), "shard-00000.h5",
              {{"model", DType::float32}, {"exp_avg", DType::bf16}, {"codes", DType::uint8}}, {100'000, 70'001, 0});
  BOOST_TEST(made.begins[0] % 4096 == 0U);
  BOOST_TEST(made.begins[1] % 4096 == 0U);
  BOOST_TEST(made.begins[2] == 0U);
  std::vector<ByteRange> regions{{made.begins[0], 400'000}, {made.begins[1], 140'002}};
  io::RawFile file = io::RawFile::extend(folder.file("shard-00000.h5"));
  std::vector<float> values(100'000);
  std::iota(values.begin(), values.end(), 1.0F);
  file.write(made.begins[0], 400'000, values.data());
  std::vector<std::uint16_t> halves(70'001, 0x4049);  // the upper half of 3.140625
  file.write(made.begins[1], 140'002, halves.data());
  const io::RawFile reading = io::RawFile::open(folder.file("shard-00000.h5"));
  BOOST_TEST(hash_around(reading, regions) == made.file.checksum);
  BOOST_TEST(static_cast<std::int64_t>(reading.size_bytes()) == made.file.size_bytes);

  const io::Hdf5File hdf5 = io::Hdf5File::open(folder.file("shard-00000.h5"));
  std::vector<float> read(100'000);
  hdf5.read("/model", io::Number::float32, {.num_rows = 100'000}, read.data());
  BOOST_TEST((read == values));
  hdf5.read("/exp_avg", io::Number::float32, {.num_rows = 70'001}, read.data());
  BOOST_TEST(std::ranges::all_of(read.begin(), read.begin() + 70'001, [](float value) { return value == 3.140625F; }));

  file.write(made.begins[0] - 1, 1, "x");
  BOOST_TEST(hash_around(reading, regions) != made.file.checksum);
}

BOOST_AUTO_TEST_SUITE_END()
