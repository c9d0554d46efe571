// SPDX-License-Identifier: Apache-2.0
// What is held for each axis is found by its name, whatever other axes there are.

#include "sft/core/axis.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>
#include <string>
#include <vector>

namespace sft {

BOOST_AUTO_TEST_SUITE(axes)

BOOST_AUTO_TEST_CASE(each_has_a_name_of_its_own) {
  BOOST_TEST(name_of(Axis::dp_replicate) == "dp_replicate");
  BOOST_TEST(name_of(Axis::dp_shard) == "dp_shard");
  BOOST_TEST(name_of(Axis::ep) == "ep");
  BOOST_TEST(name_of(Axis::sp) == "sp");
  BOOST_TEST(name_of(Axis::tp) == "tp");
  std::set<std::string_view> names;
  for (const Axis axis : all_axes) names.insert(name_of(axis));
  BOOST_TEST(names.size() == num_axes);
  BOOST_TEST((all_axes.back() == Axis::tp));  // the fastest
}

BOOST_AUTO_TEST_CASE(an_array_holds_a_value_for_each) {
  constexpr AxisArray<int> sizes(1, {{Axis::sp, 3}, {Axis::dp_shard, 2}});
  static_assert(sizes[Axis::sp] == 3 && sizes[Axis::dp_shard] == 2 && sizes[Axis::tp] == 1);
  BOOST_TEST(sizes.values().size() == num_axes);
  BOOST_TEST(std::ranges::count(sizes.values(), 1) == std::ptrdiff_t{num_axes} - 2);
  BOOST_TEST(sizes.values()[static_cast<std::size_t>(Axis::sp)] == 3);

  AxisArray<std::string> texts{{Axis::tp, "fast"}};
  BOOST_TEST(texts[Axis::sp].empty());
  texts[Axis::sp] = "ring";
  BOOST_TEST((texts == AxisArray<std::string>{{Axis::sp, "ring"}, {Axis::tp, "fast"}}));
  BOOST_TEST((texts != AxisArray<std::string>{}));
}

BOOST_AUTO_TEST_CASE(a_set_knows_its_axes) {
  constexpr AxisSet some{Axis::tp, Axis::dp_shard};
  static_assert(some.contains(Axis::tp) && some.contains(Axis::dp_shard) && !some.contains(Axis::sp));
  BOOST_TEST((some == AxisSet{Axis::dp_shard, Axis::tp}));
  BOOST_TEST((some.without({Axis::tp, Axis::sp}) == AxisSet{Axis::dp_shard}));
  BOOST_TEST((every_axis.without(every_axis) == AxisSet{}));
  for (const Axis axis : all_axes) BOOST_TEST(every_axis.contains(axis));
  BOOST_TEST(std::ranges::count(some.flags(), true) == 2);
  BOOST_TEST(some.flags()[static_cast<std::size_t>(Axis::tp)]);
}

BOOST_AUTO_TEST_CASE(ranks_are_counted_along_some_of_them) {
  constexpr AxisArray<int> sizes{
      {Axis::dp_replicate, 2}, {Axis::dp_shard, 5}, {Axis::ep, 7}, {Axis::sp, 11}, {Axis::tp, 13}};
  BOOST_TEST(num_ranks(sizes, every_axis) == 2 * 5 * 7 * 11 * 13);
  BOOST_TEST(num_ranks(sizes, data_axes) == 2 * 5 * 7);
  BOOST_TEST(num_ranks(sizes, fsdp_axes) == 5 * 7 * 11);
  BOOST_TEST(num_ranks(sizes, replica_axes) == 2 * 5 * 7 * 11);
  BOOST_TEST(num_ranks(sizes, {Axis::tp}) == 13);
  BOOST_TEST(num_ranks(sizes, {}) == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft
