// SPDX-License-Identifier: Apache-2.0
// Experts lie with the ranks of ep that have them, cut over tp and sharded over what is left of fsdp: every element on
// all ranks that share it, and owned once.

#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sft/parallel/shard_map.hpp"
#include "sft/parallel/sharding_policy.hpp"
#include "support/parameter.hpp"

namespace sft::parallel {

namespace {

constexpr int num_experts = 4;

std::vector<Unit> units_of_experts() {
  std::vector<Unit> units(2);
  for (Unit& unit : units) {
    for (int e = 0; e < num_experts; ++e) {
      for (const char* name : {"gate", "up"}) {
        Parameter p = test::parameter(std::to_string(e) + name, 6, 5, TpSplit::rows);
        p.num_experts = num_experts;
        p.expert = e;
        p.joins_previous = !unit.parameters.empty();
        unit.parameters.push_back(p);
      }
    }
  }
  return units;
}

/// How many ranks hold an element, and how many own it.
struct Holders {
  int held = 0, owned = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(experts_map)

BOOST_AUTO_TEST_CASE(every_element_is_owned_once_and_held_by_its_copies) {
  for (const mesh::Layout& layout :
       {mesh::Layout{{Axis::ep, 4}}, mesh::Layout{{Axis::dp_shard, 3}, {Axis::ep, 2}, {Axis::sp, 2}},
        mesh::Layout{{Axis::dp_replicate, 2}, {Axis::dp_shard, 2}, {Axis::ep, 2}, {Axis::tp, 2}}}) {
    for (const bool is_sharded : {true, false}) {
      std::map<std::pair<std::string, std::int64_t>, Holders> holders;
      std::int64_t num_elements = -1;
      for (const WorldRank rank : layout.ranks()) {
        const ShardMap map(units_of_experts(), mesh::Place(layout, rank), is_sharded ? expert_fsdp_axes : AxisSet{});
        BOOST_TEST(map.num_parameters() == 2 * num_experts * 2 * 30);
        if (num_elements < 0) num_elements = map.rank_shard_elements();
        BOOST_TEST(map.rank_shard_elements() == num_elements);
        for (const Piece& piece : map.pieces()) {
          const Parameter& p = *piece.parameter;
          BOOST_TEST(p.expert / (num_experts / layout[Axis::ep]) == map.place().rank(Axis::ep));
          for (const LogicalRectangle& r : ShardMap::rectangles(piece)) {
            for (std::int64_t row = 0; row < r.num_rows; ++row) {
              for (std::int64_t column = 0; column < r.num_columns; ++column) {
                Holders& of = holders[{p.name, (r.row_begin + row) * p.columns + r.column_begin + column}];
                ++of.held;
                of.owned += p.is_owner ? 1 : 0;
              }
            }
          }
        }
      }
      const int copies = layout.size() / layout[Axis::ep] / layout[Axis::tp] /
                         (is_sharded ? layout[Axis::dp_shard] * layout[Axis::sp] : 1);
      BOOST_TEST(holders.size() == static_cast<std::size_t>(num_experts * 2 * 30));
      for (const auto& [element, of] : holders) {
        BOOST_TEST(of.held == 2 * copies);  // two units have parameters of these names
        BOOST_TEST(of.owned == 2);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(experts_are_in_a_part_of_their_own) {
  std::vector<Unit> units = units_of_experts();
  units[1].parameters.push_back(test::parameter("router", 4, 5, TpSplit::none));
  BOOST_CHECK_THROW(ShardMap(units, mesh::Place()), std::logic_error);
}

BOOST_AUTO_TEST_CASE(the_part_of_experts_has_axes_and_groups_without_ep) {
  const mesh::Place place({{Axis::dp_shard, 2}, {Axis::ep, 2}}, 1);
  const ShardingPolicy policy{.parameters = true, .gradients = true, .optimizer_state = true};
  IndexedVector<PartIndex, PartUnits> model;
  model.push_back({.units = units_of_experts(), .has_gradient = true, .of_experts = true});
  const Part part = std::move(make_parts(model, place, policy, DType::float32).front());
  BOOST_TEST((part.shard_map.shard_axes() == expert_fsdp_axes));
  BOOST_TEST((part.groups.shards == &mesh::Groups::expert_fsdp));
  BOOST_TEST((part.groups.replicas == &mesh::Groups::expert_replicate));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
