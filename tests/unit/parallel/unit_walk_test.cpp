// SPDX-License-Identifier: Apache-2.0
// What becomes of a unit when the next one is entered: it stays while nobody needs its buffer.

#include "sft/parallel/unit_order.hpp"

#include <boost/test/unit_test.hpp>
#include <stdexcept>

#include "unit/parallel/sample_units.hpp"

namespace sft::parallel {

namespace {

using config::Reshard;
using Departures = std::vector<Departure>;
constexpr auto keep = Departure::keep, reshard = Departure::reshard, release = Departure::release;

/// Of the sample units: an embedding, four blocks, a head.
Departures departures(const std::vector<UnitIndex>& units, Reshard after_forward, bool tied) {
  const SlotAssignment slots(test::num_sample_units, {.reshard = after_forward}, tied);
  const UnitWalk walk(units, slots);
  Departures result;
  for (std::size_t stop = 0; stop < walk.num_stops(); ++stop) result.push_back(walk.departure(stop));
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(unit_walk)

BOOST_AUTO_TEST_CASE(forward_and_back) {
  const Departures found = departures({0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0}, Reshard::always, false);
  // The last two blocks have the buffers to themselves; the head takes that of the embedding.
  const Departures expected{reshard, reshard, reshard, keep,    keep,   release,
                            release, release, release, release, release};
  BOOST_TEST((found == expected));
}

BOOST_AUTO_TEST_CASE(a_tied_table_stays) {
  const Departures found = departures({0, 1, 2, 3, 4, 5, 0, 0, 5, 4, 3, 2, 1, 0}, Reshard::always, true);
  const Departures expected{keep,    reshard, reshard, keep,    keep,    keep,   keep,
                            release, release, release, release, release, release};
  BOOST_TEST((found == expected));
}

BOOST_AUTO_TEST_CASE(without_resharding_all_stay) {
  const Departures found = departures({0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0}, Reshard::never, false);
  for (std::size_t stop = 0; stop < found.size(); ++stop) BOOST_TEST((found[stop] == (stop < 5 ? keep : release)));
}

BOOST_AUTO_TEST_CASE(a_forward_pass_keeps_nothing) {
  for (const Departure departure : departures({0, 1, 2, 3, 4, 5}, Reshard::always, false))
    BOOST_TEST((departure == release));
}

BOOST_AUTO_TEST_CASE(a_unit_twice_in_a_row_is_one_stop) {
  const SlotAssignment slots(test::num_sample_units, {}, false);
  const UnitWalk walk({0, 1, 1, 1, 2, 2}, slots);
  BOOST_TEST(walk.num_stops() == 3U);
  BOOST_TEST(walk.unit(1) == 1);
  BOOST_TEST(walk.unit(2) == 2);
  BOOST_CHECK_THROW(UnitWalk({}, slots), std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
