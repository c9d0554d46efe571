// SPDX-License-Identifier: Apache-2.0
#include "sft/mesh/layout.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

namespace sft::mesh {

namespace {

const std::vector<Layout> layouts = {{1, 1, 1, 1}, {2, 2, 2, 2},  {3, 1, 2, 1}, {1, 5, 1, 3},  {4, 1, 1, 4},
                                     {1, 1, 7, 1}, {4, 16, 4, 4}, {2, 3, 5, 7}, {8, 32, 8, 4}, {16, 16, 1, 8}};

/// All 16 choices of kept axes.
std::vector<std::array<bool, 4>> all_kept_axes() {
  std::vector<std::array<bool, 4>> choices;
  for (unsigned bits = 0; bits < 16; ++bits) {
    choices.push_back({(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0});
  }
  return choices;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rank_and_coordinates_are_inverse) {
  for (const Layout& layout : layouts) {
    std::set<std::array<int, 4>> seen;
    for (int rank = 0; rank < layout.size(); ++rank) {
      const Coordinates coordinates = layout.coordinates(rank);
      const auto& [replicate, shard, sp, tp] = coordinates;
      BOOST_REQUIRE(replicate >= 0 && replicate < layout.dp_replicate && shard >= 0 && shard < layout.dp_shard);
      BOOST_REQUIRE(sp >= 0 && sp < layout.sp && tp >= 0 && tp < layout.tp);
      BOOST_REQUIRE_EQUAL(layout.rank(coordinates), rank);
      seen.insert({replicate, shard, sp, tp});
    }
    BOOST_TEST(seen.size() == static_cast<std::size_t>(layout.size()));
  }
}

BOOST_AUTO_TEST_CASE(tp_is_the_fastest_axis_and_replicate_the_slowest) {
  const Layout layout{2, 3, 4, 5};
  BOOST_TEST(layout.rank({0, 0, 0, 1}) == 1);
  BOOST_TEST(layout.rank({0, 0, 1, 0}) == 5);
  BOOST_TEST(layout.rank({0, 1, 0, 0}) == 20);
  BOOST_TEST(layout.rank({1, 0, 0, 0}) == 60);
  BOOST_TEST(layout.rank({1, 2, 3, 4}) == layout.size() - 1);
}

BOOST_AUTO_TEST_CASE(members_partition_the_world) {
  for (const Layout& layout : {Layout{2, 2, 2, 2}, Layout{3, 1, 2, 1}, Layout{2, 3, 5, 7}}) {
    for (const std::array<bool, 4>& kept : all_kept_axes()) {
      std::size_t expected_size = 1;
      for (std::size_t axis = 0; axis < 4; ++axis) {
        if (kept[axis]) expected_size *= static_cast<std::size_t>(layout.sizes()[axis]);
      }
      for (int rank = 0; rank < layout.size(); ++rank) {
        const std::vector<int> members = layout.members(rank, kept);
        BOOST_REQUIRE_EQUAL(members.size(), expected_size);
        BOOST_REQUIRE(std::is_sorted(members.begin(), members.end()));
        BOOST_REQUIRE(std::find(members.begin(), members.end(), rank) != members.end());
        for (const int member : members) BOOST_REQUIRE(layout.members(member, kept) == members);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(members_of_known_groups) {
  const Layout layout{2, 2, 2, 2};
  BOOST_TEST(layout.members(5, {false, false, false, true}) == (std::vector<int>{4, 5}),
             boost::test_tools::per_element());
  BOOST_TEST(layout.members(5, {true, false, false, false}) == (std::vector<int>{5, 13}),
             boost::test_tools::per_element());
  BOOST_TEST(layout.members(5, {false, true, true, false}) == (std::vector<int>{1, 3, 5, 7}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(members_of_a_thousand_ranks) {
  const Layout layout{8, 32, 8, 4};  // 8192 ranks
  const std::vector<int> tp = layout.members(8191, {false, false, false, true});
  BOOST_TEST(tp == (std::vector<int>{8188, 8189, 8190, 8191}), boost::test_tools::per_element());
  BOOST_TEST(layout.members(0, {false, true, true, false}).size() == 256U);
}

BOOST_AUTO_TEST_CASE(axes_between_nodes_are_found) {
  const Layout layout{2, 2, 2, 2};
  const auto nodes = [](int ranks_per_node) {
    std::vector<int> node_of_rank;
    for (int rank = 0; rank < 16; ++rank) node_of_rank.push_back(rank / ranks_per_node);
    return node_of_rank;
  };
  using Axes = std::array<bool, 4>;
  BOOST_TEST((layout.axes_between_nodes(nodes(16)) == Axes{false, false, false, false}));
  BOOST_TEST((layout.axes_between_nodes(nodes(8)) == Axes{true, false, false, false}));
  BOOST_TEST((layout.axes_between_nodes(nodes(2)) == Axes{true, true, true, false}));
  BOOST_TEST((layout.axes_between_nodes(nodes(1)) == Axes{true, true, true, true}));
  BOOST_TEST((layout.axes_between_nodes(nodes(3))[3]));  // ranks 2 and 3 are tp neighbours on two nodes
  BOOST_TEST((Layout{1, 4, 1, 4}.axes_between_nodes(nodes(4)) == Axes{false, true, false, false}));
}

BOOST_AUTO_TEST_CASE(describes_itself) {
  BOOST_TEST((Layout{2, 1, 4, 8}.describe()) == "2 x 1 x 4 x 8 (dp_replicate x dp_shard x sp x tp)");
}

}  // namespace sft::mesh
