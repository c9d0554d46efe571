// SPDX-License-Identifier: Apache-2.0
// The rank that computes longest, by tables of times.
#include <boost/test/unit_test.hpp>
#include <vector>

#include "sft/train/slowest_rank.hpp"

namespace sft::train {

BOOST_AUTO_TEST_SUITE(slowest_rank)

BOOST_AUTO_TEST_CASE(its_ratio_is_to_the_median) {
  const SlowestRank odd = slowest_of(std::vector<double>{1.0, 2.0, 5.0});
  BOOST_TEST(odd.rank == 2);
  BOOST_TEST(odd.ratio == 2.5);
  BOOST_TEST(odd.excess_s == 3.0);
  const SlowestRank even = slowest_of(std::vector<double>{1.0, 9.0, 2.0, 4.0});
  BOOST_TEST(even.rank == 1);
  BOOST_TEST(even.ratio == 3.0);
  BOOST_TEST(even.excess_s == 6.0);
}

BOOST_AUTO_TEST_CASE(equal_ranks_and_empty_times_have_ratio_one) {
  const SlowestRank equal = slowest_of(std::vector<double>{3.0, 3.0});
  BOOST_TEST(equal.rank == 0);
  BOOST_TEST(equal.ratio == 1.0);
  BOOST_TEST(slowest_of(std::vector<double>{0.0, 0.0, 0.0}).ratio == 1.0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::train
