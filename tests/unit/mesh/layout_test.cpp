// SPDX-License-Identifier: Apache-2.0
#include "sft/mesh/layout.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "support/layout.hpp"

namespace sft::mesh {

namespace {

const Layout on_all_axes{{Axis::dp_replicate, 3}, {Axis::dp_shard, 2}, {Axis::ep, 2}, {Axis::sp, 2}, {Axis::tp, 3}};

const std::vector<test::Layout> layouts = {{1, 1, 1, 1}, {2, 2, 2, 2},  {3, 1, 2, 1}, {1, 5, 1, 3},  {4, 1, 1, 4},
                                           {1, 1, 7, 1}, {4, 16, 4, 4}, {2, 3, 5, 7}, {8, 32, 8, 4}, {16, 16, 1, 8}};

/// Every choice of some of the axes.
std::vector<AxisSet> all_axis_sets() {
  std::vector<AxisSet> sets;
  for (unsigned bits = 0; bits < 1U << num_axes; ++bits) {
    AxisSet& set = sets.emplace_back();
    for (const Axis axis : all_axes) {
      if ((bits >> static_cast<unsigned>(axis) & 1U) != 0) set.insert(axis);
    }
  }
  return sets;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rank_and_coordinates_are_inverse) {
  std::vector<Layout> all(layouts.begin(), layouts.end());
  all.push_back(on_all_axes);
  for (const Layout& layout : all) {
    std::set<std::vector<int>> seen;
    for (const WorldRank rank : layout.ranks()) {
      const Coordinates coordinates = layout.coordinates(rank);
      for (const Axis axis : all_axes) BOOST_REQUIRE(coordinates[axis] >= 0 && coordinates[axis] < layout[axis]);
      BOOST_REQUIRE_EQUAL(layout.rank(coordinates), rank);
      seen.emplace(coordinates.values().begin(), coordinates.values().end());
    }
    BOOST_TEST(seen.size() == static_cast<std::size_t>(layout.size()));
  }
}

BOOST_AUTO_TEST_CASE(tp_is_the_fastest_axis_and_replicate_the_slowest) {
  const test::Layout layout{2, 3, 4, 5};
  BOOST_TEST(layout.rank({{Axis::tp, 1}}) == 1);
  BOOST_TEST(layout.rank({{Axis::sp, 1}}) == 5);
  BOOST_TEST(layout.rank({{Axis::dp_shard, 1}}) == 20);
  BOOST_TEST(layout.rank({{Axis::dp_replicate, 1}}) == 60);
  BOOST_TEST(layout.rank({{Axis::dp_replicate, 1}, {Axis::dp_shard, 2}, {Axis::sp, 3}, {Axis::tp, 4}}) ==
             layout.size() - 1);
}

BOOST_AUTO_TEST_CASE(axes_that_tables_leave_out_stand_between_the_others) {
  const auto stride = [](Axis axis) { return on_all_axes.rank({{axis, 1}}); };
  BOOST_TEST(stride(Axis::tp) == 1);
  BOOST_TEST(stride(Axis::sp) == 3);
  BOOST_TEST(stride(Axis::ep) == 3 * 2);
  BOOST_TEST(stride(Axis::dp_shard) == 3 * 2 * 2);
  BOOST_TEST(stride(Axis::dp_replicate) == 3 * 2 * 2 * 2);
}

BOOST_AUTO_TEST_CASE(members_partition_the_world) {
  for (const Layout& layout : {Layout(test::Layout{2, 2, 2, 2}), Layout(test::Layout{3, 1, 2, 1}), on_all_axes}) {
    for (const AxisSet& axes : all_axis_sets()) {
      std::ptrdiff_t expected_size = 1;
      for (const Axis axis : all_axes) expected_size *= axes.contains(axis) ? layout[axis] : 1;
      BOOST_REQUIRE_EQUAL(layout.size(axes), expected_size);
      for (const WorldRank rank : layout.ranks()) {
        const std::vector<WorldRank> members = layout.members(rank, axes);
        BOOST_REQUIRE_EQUAL(std::ssize(members), expected_size);
        BOOST_REQUIRE(std::is_sorted(members.begin(), members.end()));
        const auto self = std::find(members.begin(), members.end(), rank);
        BOOST_REQUIRE_EQUAL(self - members.begin(), layout.rank(layout.coordinates(rank), axes));
        for (const WorldRank member : members) BOOST_REQUIRE(layout.members(member, axes) == members);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(members_of_known_groups) {
  const test::Layout layout{2, 2, 2, 2};
  BOOST_TEST(layout.members(5, {Axis::tp}) == (std::vector<WorldRank>{4, 5}), boost::test_tools::per_element());
  BOOST_TEST(layout.members(5, {Axis::dp_replicate}) == (std::vector<WorldRank>{5, 13}),
             boost::test_tools::per_element());
  BOOST_TEST(layout.members(5, {Axis::dp_shard, Axis::sp}) == (std::vector<WorldRank>{1, 3, 5, 7}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(members_of_a_thousand_ranks) {
  const test::Layout layout{8, 32, 8, 4};  // 8192 ranks
  const std::vector<WorldRank> tp = layout.members(8191, {Axis::tp});
  BOOST_TEST(tp == (std::vector<WorldRank>{8188, 8189, 8190, 8191}), boost::test_tools::per_element());
  BOOST_TEST(layout.members(0, fsdp_axes).size() == 256U);
}

BOOST_AUTO_TEST_CASE(axes_between_nodes_are_found) {
  const test::Layout layout{2, 2, 2, 2};
  const auto nodes = [](int ranks_per_node) {
    IndexedVector<WorldRank, int> node_of_rank;
    for (int rank = 0; rank < 16; ++rank) node_of_rank.push_back(rank / ranks_per_node);
    return node_of_rank;
  };
  const AxisSet all_but_tp{Axis::dp_replicate, Axis::dp_shard, Axis::sp};
  BOOST_TEST((layout.axes_between_nodes(nodes(16)) == AxisSet{}));
  BOOST_TEST((layout.axes_between_nodes(nodes(8)) == AxisSet{Axis::dp_replicate}));
  BOOST_TEST((layout.axes_between_nodes(nodes(2)) == all_but_tp));
  BOOST_TEST((all_but_tp.without(layout.axes_between_nodes(nodes(1))) == AxisSet{}));
  BOOST_TEST(layout.axes_between_nodes(nodes(1)).contains(Axis::tp));
  BOOST_TEST(layout.axes_between_nodes(nodes(3)).contains(Axis::tp));  // ranks 2 and 3 are neighbours on two nodes
  BOOST_TEST((test::Layout{1, 4, 1, 4}.axes_between_nodes(nodes(4)) == AxisSet{Axis::dp_shard}));
}

BOOST_AUTO_TEST_CASE(describes_itself) {
  BOOST_TEST((test::Layout{2, 1, 4, 8}.describe()) == "2 x 1 x 4 x 8 (dp_replicate x dp_shard x sp x tp)");
  BOOST_TEST((Layout{}.describe()) == "1 x 1 x 1 x 1 (dp_replicate x dp_shard x sp x tp)");
  BOOST_TEST((Layout{{Axis::ep, 2}}.describe()) == "1 x 1 x 2 x 1 x 1 (dp_replicate x dp_shard x ep x sp x tp)");
  BOOST_TEST(on_all_axes.describe() == "3 x 2 x 2 x 2 x 3 (dp_replicate x dp_shard x ep x sp x tp)");
}

}  // namespace sft::mesh
