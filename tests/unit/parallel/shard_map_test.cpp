// SPDX-License-Identifier: Apache-2.0
// Slices and shards of parameters: every logical element has exactly one counted owner, on any mesh.

#include "sft/parallel/shard_map.hpp"

#include <boost/test/unit_test.hpp>
#include <map>
#include <string>

#include "support/parameter.hpp"

namespace {

using namespace sft::parallel;

using sft::test::parameter;

/// Awkward on purpose: nothing here divides by the shard alignment.
std::vector<Unit> make_units(int num_kv_heads = 2) {
  std::vector<Unit> units(3);
  units[0].parameters = {parameter("table", 24, 7, TpSplit::rows)};
  units[1].parameters = {parameter("q", 16, 5, TpSplit::rows),           parameter("k", 8, 5, TpSplit::kv_rows),
                         parameter("o", 9, 16, TpSplit::columns),        parameter("norm", 5, 0, TpSplit::none),
                         parameter("head_norm", 3, 0, TpSplit::partial), parameter("k_bias", 8, 0, TpSplit::kv_rows)};
  units[2].parameters = {parameter("final", 11, 0, TpSplit::none)};
  for (Parameter& p : units[1].parameters) {
    if (p.split == TpSplit::kv_rows) p.num_kv_heads = num_kv_heads;
  }
  return units;
}

struct Case {
  int tp_size, kv_replicas, fsdp_size;

  [[nodiscard]] int num_kv_heads() const { return tp_size / kv_replicas; }
};

sft::mesh::Place place(const Case& c, int replicate_rank, int fsdp_rank, int tp_rank) {
  const sft::mesh::Layout layout{
      {sft::Axis::dp_replicate, 2}, {sft::Axis::dp_shard, c.fsdp_size}, {sft::Axis::tp, c.tp_size}};
  const sft::WorldRank rank = layout.rank(
      {{sft::Axis::dp_replicate, replicate_rank}, {sft::Axis::dp_shard, fsdp_rank}, {sft::Axis::tp, tp_rank}});
  return {layout, rank};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_vocabulary_is_split_as_evenly_as_it_goes) {
  for (const std::int64_t vocab_size : {8, 9, 23, 96, 151936}) {
    for (const int tp_size : {1, 2, 3, 8}) {
      std::int64_t next = 0;
      for (const sft::TpRank rank : sft::IndexRange<sft::TpRank>(tp_size)) {
        const VocabSplit split = split_vocab(vocab_size, tp_size, rank);
        BOOST_TEST(split.begin == next);
        BOOST_TEST((split.count == vocab_size / tp_size || split.count == vocab_size / tp_size + 1));
        BOOST_TEST(split.max_count == (vocab_size + tp_size - 1) / tp_size);
        next += split.count;
      }
      BOOST_TEST(next == vocab_size);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_row_of_a_vocabulary_that_does_not_divide_has_one_owner) {
  for (const Case& c : {Case{2, 1, 2}, Case{4, 2, 5}, Case{8, 8, 1}}) {
    std::vector<int> owners(23 * 3);
    for (int tp = 0; tp < c.tp_size; ++tp) {
      for (int f = 0; f < c.fsdp_size; ++f) {
        std::vector<Unit> units(1);
        units[0].parameters = {parameter("head", 23, 3, TpSplit::vocab_rows)};
        const ShardMap shard_map(units, place(c, 0, f, tp));
        for (const Piece& piece : shard_map.pieces()) {
          BOOST_TEST(piece.parameter->is_owner);
          for (const LogicalRectangle& r : ShardMap::rectangles(piece)) {
            for (std::int64_t row = 0; row < r.num_rows; ++row) {
              for (std::int64_t column = 0; column < r.num_columns; ++column) {
                ++owners[static_cast<std::size_t>((r.row_begin + row) * 3 + r.column_begin + column)];
              }
            }
          }
        }
      }
    }
    BOOST_TEST(owners == std::vector<int>(owners.size(), 1), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(every_element_has_one_owner) {
  for (const Case& c : {Case{1, 1, 1}, Case{1, 1, 3}, Case{2, 1, 2}, Case{4, 2, 5}, Case{8, 4, 1}, Case{8, 8, 16}}) {
    std::map<std::string, std::vector<int>> owners;
    for (int tp = 0; tp < c.tp_size; ++tp) {
      for (int f = 0; f < c.fsdp_size; ++f) {
        const ShardMap second_replica(make_units(c.num_kv_heads()), place(c, 1, f, tp));
        for (const Piece& piece : second_replica.pieces()) {
          BOOST_TEST(!piece.parameter->is_owner);
        }
        const ShardMap shard_map(make_units(c.num_kv_heads()), place(c, 0, f, tp));
        std::int64_t next = 0;
        for (const Piece& piece : shard_map.pieces()) {
          BOOST_TEST(piece.shard_offset >= next);
          next = piece.shard_offset + piece.count;
          const Parameter& p = *piece.parameter;
          std::int64_t covered = 0;
          const auto rectangles = ShardMap::rectangles(piece);
          BOOST_TEST(rectangles.size() <= 3U);
          for (const LogicalRectangle& r : rectangles) {
            BOOST_TEST(r.shard_offset == piece.shard_offset + covered);
            covered += r.num_rows * r.num_columns;
            if (!p.is_owner) continue;
            auto& count = owners[p.name];
            count.resize(static_cast<std::size_t>(p.elements()));
            const std::int64_t width = p.is_vector() ? 1 : p.columns;
            for (std::int64_t i = 0; i < r.num_rows; ++i) {
              for (std::int64_t j = 0; j < r.num_columns; ++j) {
                ++count.at(static_cast<std::size_t>((r.row_begin + i) * width + r.column_begin + j));
              }
            }
          }
          BOOST_TEST(covered == piece.count);
        }
        BOOST_TEST(next <= shard_map.rank_shard_elements());

        std::vector<int> covers(static_cast<std::size_t>(shard_map.rank_shard_elements()));
        const auto cover = [&](std::int64_t begin, std::int64_t count) {
          for (std::int64_t i = begin; i < begin + count; ++i) ++covers.at(static_cast<std::size_t>(i));
        };
        for (const Piece& piece : shard_map.pieces()) cover(piece.shard_offset, piece.count);
        for (const ShardRange& gap : shard_map.padding()) cover(gap.begin, gap.count);
        BOOST_TEST((covers == std::vector<int>(covers.size(), 1)));
      }
    }
    BOOST_TEST(owners.size() == 8U);
    for (const auto& [name, count] : owners) {
      BOOST_TEST_CONTEXT(name << " tp " << c.tp_size << " fsdp " << c.fsdp_size) {
        for (const int n : count) BOOST_TEST(n == 1);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(shards_are_equal_and_aligned) {
  for (int fsdp = 1; fsdp <= 9; ++fsdp) {
    const ShardMap shard_map(make_units(), place({2, 1, fsdp}, 0, fsdp - 1, 1));
    for (const Unit& unit : shard_map.units()) {
      BOOST_TEST(unit.shard_elements * fsdp == unit.num_elements);
      BOOST_TEST(unit.shard_elements % 64 == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(parameters_are_counted_once) {
  const std::int64_t expected = 24 * 7 + 16 * 5 + 8 * 5 + 9 * 16 + 5 + 3 + 8 + 11;
  BOOST_TEST(ShardMap(make_units(), place({4, 2, 2}, 0, 1, 3)).num_parameters() == expected);
}

BOOST_AUTO_TEST_CASE(groups_of_parameters_begin_on_borders) {
  std::vector<Unit> units = make_units();
  units[1].parameters[1].joins_previous = true;  // k with q
  const ShardMap shard_map(std::move(units), place({2, 1, 3}, 0, 0, 1));
  for (const Unit& unit : shard_map.units()) {
    std::int64_t end = 0;
    for (const Parameter& p : unit.parameters) {
      BOOST_TEST(p.unit_offset % (p.joins_previous ? 1 : alignment_elements) == 0);
      if (p.joins_previous) BOOST_TEST(p.unit_offset == end);
      end = p.unit_offset + p.local_elements();
    }
  }
}

BOOST_AUTO_TEST_CASE(parameters_and_padding_fill_a_unit) {
  const ShardMap shard_map(make_units(), place({2, 1, 3}, 0, 1, 0));
  for (const UnitIndex u : shard_map.unit_indices()) {
    std::vector<int> covers(static_cast<std::size_t>(shard_map.unit(u).num_elements));
    const auto cover = [&](std::int64_t begin, std::int64_t count) {
      for (std::int64_t i = begin; i < begin + count; ++i) ++covers.at(static_cast<std::size_t>(i));
    };
    for (const Parameter& p : shard_map.unit(u).parameters) cover(p.unit_offset, p.local_elements());
    for (const ShardRange& gap : shard_map.padding_of_unit(u)) cover(gap.begin, gap.count);
    BOOST_TEST((covers == std::vector<int>(covers.size(), 1)));
  }
}

BOOST_AUTO_TEST_CASE(ranges_merge_neighbours) {
  std::vector<Unit> units = make_units();
  units[1].parameters[1].joins_previous = true;  // k with q
  const ShardMap shard_map(std::move(units), sft::mesh::Place());
  const auto is_matrix = [](const Parameter& p) { return !p.is_vector(); };
  const auto matrices = shard_map.ranges(is_matrix);
  BOOST_REQUIRE(matrices.size() == 3U);  // the table; q and k together; o
  BOOST_TEST(matrices[0].count == 24 * 7);
  BOOST_TEST(matrices[1].count == 16 * 5 + 8 * 5);
  BOOST_TEST(matrices[1].begin == shard_map.unit(1).shard_offset);
  const auto of_unit = shard_map.ranges_of_unit(1, is_matrix);
  BOOST_REQUIRE(of_unit.size() == 2U);
  BOOST_TEST(of_unit[0].begin == matrices[1].begin);
  BOOST_TEST(of_unit[1].count == 9 * 16);
}
