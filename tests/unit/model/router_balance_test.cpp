// SPDX-License-Identifier: Apache-2.0
// How uneven choices of experts are.

#include "sft/model/router_balance.hpp"

#include <boost/test/unit_test.hpp>

using sft::model::expert_imbalance;

BOOST_AUTO_TEST_CASE(the_most_uneven_layer_counts) {
  BOOST_TEST(expert_imbalance({4, 4, 4, 4}, 4) == 1.0);
  BOOST_TEST(expert_imbalance({4, 4, 4, 4, 0, 8, 4, 4}, 4) == 2.0);
  BOOST_TEST(expert_imbalance({0, 16, 0, 0, 4, 4, 4, 4}, 4) == 4.0);
}

BOOST_AUTO_TEST_CASE(what_nobody_chose_from_is_even) {
  BOOST_TEST(expert_imbalance({}, 4) == 0.0);
  BOOST_TEST(expert_imbalance({0, 0, 0}, 3) == 0.0);
}
