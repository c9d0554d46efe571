#define BOOST_TEST_MODULE mesh_layout
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
    std::set<Coordinates> seen;
    for (int rank = 0; rank < layout.size(); ++rank) {
      const Coordinates coordinates = layout.coordinates(rank);
      for (std::size_t axis = 0; axis < 4; ++axis) {
        BOOST_REQUIRE(coordinates[axis] >= 0 && coordinates[axis] < layout.sizes()[axis]);
      }
      BOOST_REQUIRE_EQUAL(layout.rank(coordinates), rank);
      seen.insert(coordinates);
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

BOOST_AUTO_TEST_CASE(describes_itself) {
  BOOST_TEST((Layout{2, 1, 4, 8}.describe()) == "2 x 1 x 4 x 8 (dp_replicate x dp_shard x sp x tp)");
}

BOOST_AUTO_TEST_CASE(heads_are_split_evenly) {
  for (int tp_size : {1, 2, 4}) {
    for (int rank = 0; rank < tp_size; ++rank) {
      const HeadSplit split = split_heads(8, 4, tp_size, rank);
      BOOST_TEST(split.q_heads == 8 / tp_size);
      BOOST_TEST(split.kv_heads == 4 / tp_size);
      BOOST_TEST(split.kv_begin == rank * split.kv_heads);
      BOOST_TEST(split.kv_replicas == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(key_value_heads_fewer_than_ranks_are_replicated) {
  const std::vector<int> expected_begins = {0, 0, 0, 0, 1, 1, 1, 1};
  for (int rank = 0; rank < 8; ++rank) {
    const HeadSplit split = split_heads(16, 2, 8, rank);
    BOOST_TEST(split.q_heads == 2);
    BOOST_TEST(split.kv_heads == 1);
    BOOST_TEST(split.kv_begin == expected_begins[static_cast<std::size_t>(rank)]);
    BOOST_TEST(split.kv_replicas == 4);
  }
}

BOOST_AUTO_TEST_CASE(every_query_head_finds_its_key_value_head) {
  for (const auto& [heads, kv_heads, tp_size] :
       std::vector<std::array<int, 3>>{{8, 8, 4}, {8, 2, 4}, {16, 4, 2}, {12, 3, 6}}) {
    for (int rank = 0; rank < tp_size; ++rank) {
      const HeadSplit split = split_heads(heads, kv_heads, tp_size, rank);
      for (int local = 0; local < split.q_heads; ++local) {
        const int global_kv = (rank * split.q_heads + local) / (heads / kv_heads);
        BOOST_TEST(global_kv == split.kv_begin + local / (split.q_heads / split.kv_heads));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(indivisible_heads_are_a_bug) {
  BOOST_CHECK_THROW((void)split_heads(6, 6, 4, 0), std::logic_error);
  BOOST_CHECK_THROW((void)split_heads(12, 6, 4, 0), std::logic_error);
  BOOST_CHECK_THROW((void)split_heads(8, 3, 4, 0), std::logic_error);
}

}  // namespace sft::mesh
