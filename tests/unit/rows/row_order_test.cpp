// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/row_order.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <numeric>

using sft::rows::OrderKind;
using sft::rows::RowOrder;

namespace {

std::vector<std::int64_t> epoch_of(RowOrder& order, std::int64_t num_rows, std::int64_t epoch) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < num_rows; ++i) rows.push_back(order.row_at(epoch * num_rows + i));
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(row_order)

BOOST_AUTO_TEST_CASE(without_shuffling_rows_come_in_file_order_again_and_again) {
  RowOrder order(OrderKind::endless, 3, false, 42);
  const std::vector<std::int64_t> expected = {0, 1, 2, 0, 1, 2, 0};
  for (std::int64_t p = 0; p < std::ssize(expected); ++p) {
    BOOST_TEST(order.row_at(p) == expected[static_cast<std::size_t>(p)]);
  }
}

BOOST_AUTO_TEST_CASE(every_epoch_is_another_permutation_of_all_rows) {
  constexpr std::int64_t num_rows = 100;
  RowOrder order(OrderKind::endless, num_rows, true, 42);
  std::vector<std::vector<std::int64_t>> epochs;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<std::int64_t> rows = epoch_of(order, num_rows, epoch);
    BOOST_TEST(std::count(epochs.begin(), epochs.end(), rows) == 0);
    epochs.push_back(rows);
    std::sort(rows.begin(), rows.end());
    std::vector<std::int64_t> all(num_rows);
    std::iota(all.begin(), all.end(), 0);
    BOOST_TEST(rows == all);
  }
}

BOOST_AUTO_TEST_CASE(any_position_can_be_asked_first) {
  RowOrder forward(OrderKind::endless, 50, true, 7), jump(OrderKind::endless, 50, true, 7);
  const std::vector<std::int64_t> first = epoch_of(forward, 50, 0), fourth = epoch_of(forward, 50, 3);
  BOOST_TEST(epoch_of(jump, 50, 3) == fourth);
  BOOST_TEST(epoch_of(jump, 50, 0) == first);
}

BOOST_AUTO_TEST_CASE(the_order_is_a_function_of_the_seed_and_stays_what_it_is) {
  RowOrder order(OrderKind::endless, 10, true, 42), other(OrderKind::endless, 10, true, 43);
  const std::vector<std::int64_t> rows = epoch_of(order, 10, 0);
  BOOST_TEST(rows != epoch_of(other, 10, 0));
  const std::vector<std::int64_t> recorded = {4, 9, 8, 7, 3, 6, 5, 2, 1, 0};
  BOOST_TEST(rows == recorded);
}

BOOST_AUTO_TEST_CASE(all_orders_of_four_rows_are_equally_likely) {
  std::map<std::vector<std::int64_t>, int> times;
  constexpr int num_draws = 24000;
  for (std::uint64_t seed = 0; seed < num_draws; ++seed) {
    RowOrder order(OrderKind::endless, 4, true, seed);
    ++times[epoch_of(order, 4, 0)];
  }
  BOOST_TEST(times.size() == 24u);
  for (const auto& [order, count] : times) BOOST_TEST(std::abs(count - num_draws / 24) < 160);  // 5 sigma
}

BOOST_AUTO_TEST_CASE(many_rows_are_permuted_without_a_list, *boost::unit_test::label("long")) {
  constexpr std::int64_t num_rows = RowOrder::max_listed_rows + 7;
  RowOrder order(OrderKind::endless, num_rows, true, 42);
  std::vector<std::int64_t> rows = epoch_of(order, num_rows, 0);
  BOOST_TEST((rows != epoch_of(order, num_rows, 1)));
  BOOST_TEST(rows[0] == order.row_at(0));  // epochs may be asked in any order
  std::sort(rows.begin(), rows.end());
  std::vector<std::int64_t> all(num_rows);
  std::iota(all.begin(), all.end(), 0);
  BOOST_TEST((rows == all));
  BOOST_TEST(RowOrder::memory_bytes(OrderKind::endless, num_rows, true) == 0U);
  BOOST_TEST(RowOrder::memory_bytes(OrderKind::endless, 1000, true) == 4000U);
}

BOOST_AUTO_TEST_CASE(the_order_of_many_rows_stays_what_it_is) {
  RowOrder order(OrderKind::endless, 1'000'000'000'000, true, 42);
  std::vector<std::int64_t> rows;
  for (std::int64_t p = 0; p < 4; ++p) rows.push_back(order.row_at(p));
  rows.push_back(order.row_at(1'000'000'000'000));
  const std::vector<std::int64_t> recorded = {13955822905, 389994915355, 609344346026, 739715321632, 440619000145};
  BOOST_TEST(rows == recorded);
}

BOOST_AUTO_TEST_CASE(rows_of_a_long_order_are_spread_evenly, *boost::unit_test::label("long")) {
  // Of 2^20 positions in each of 4 epochs: how often a block of positions, and the row before, lead to a block of rows.
  constexpr std::int64_t num_rows = 3 << 20, num_blocks = 32, rows_per_block = num_rows / num_blocks;
  RowOrder order(OrderKind::endless, num_rows, true, 7);
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<double> by_position(num_blocks * num_blocks), by_row_before(num_blocks * num_blocks);
    std::int64_t before = order.row_at(epoch * num_rows);
    constexpr std::int64_t stride = 3;  // all of the epoch's blocks of positions
    std::int64_t num_draws = 0;
    for (std::int64_t index = 1; index < num_rows; index += stride) {
      before = order.row_at(epoch * num_rows + index - 1);
      const std::int64_t row = order.row_at(epoch * num_rows + index);
      ++by_position[static_cast<std::size_t>(index / rows_per_block * num_blocks + row / rows_per_block)];
      ++by_row_before[static_cast<std::size_t>(before / rows_per_block * num_blocks + row / rows_per_block)];
      ++num_draws;
    }
    const double expected = static_cast<double>(num_draws) / (num_blocks * num_blocks);
    for (const std::vector<double>& counts : {by_position, by_row_before}) {
      double chi_square = 0.0;
      for (const double count : counts) chi_square += (count - expected) * (count - expected) / expected;
      // Mean and variance of chi-square: the degrees of freedom and twice that.
      const double freedom = num_blocks * num_blocks - 1;
      BOOST_TEST(std::abs(chi_square - freedom) < 6 * std::sqrt(2 * freedom));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_first_row_of_a_long_order_is_any_row) {
  constexpr std::int64_t num_rows = RowOrder::max_listed_rows + 1;
  constexpr int num_draws = 16000, num_blocks = 16;
  std::vector<int> counts(num_blocks);
  for (std::uint64_t seed = 0; seed < num_draws; ++seed) {
    RowOrder order(OrderKind::endless, num_rows, true, seed);
    ++counts[static_cast<std::size_t>(order.row_at(0) * num_blocks / num_rows)];
  }
  for (const int count : counts) BOOST_TEST(std::abs(count - num_draws / num_blocks) < 160);  // 5 sigma
}

BOOST_AUTO_TEST_SUITE_END()
