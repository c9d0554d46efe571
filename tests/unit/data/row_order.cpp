#include "sft/data/row_order.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <numeric>

using sft::data::RowOrder;

namespace {

std::vector<std::int64_t> epoch_of(RowOrder& order, std::int64_t num_rows, std::int64_t epoch) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < num_rows; ++i) rows.push_back(order.row_at(epoch * num_rows + i));
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(row_order)

BOOST_AUTO_TEST_CASE(without_shuffling_rows_come_in_file_order_again_and_again) {
  RowOrder order(3, false, 42);
  const std::vector<std::int64_t> expected = {0, 1, 2, 0, 1, 2, 0};
  for (std::int64_t p = 0; p < std::ssize(expected); ++p) {
    BOOST_TEST(order.row_at(p) == expected[static_cast<std::size_t>(p)]);
  }
}

BOOST_AUTO_TEST_CASE(every_epoch_is_another_permutation_of_all_rows) {
  constexpr std::int64_t num_rows = 100;
  RowOrder order(num_rows, true, 42);
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
  RowOrder forward(50, true, 7), jump(50, true, 7);
  const std::vector<std::int64_t> first = epoch_of(forward, 50, 0), fourth = epoch_of(forward, 50, 3);
  BOOST_TEST(epoch_of(jump, 50, 3) == fourth);
  BOOST_TEST(epoch_of(jump, 50, 0) == first);
}

BOOST_AUTO_TEST_CASE(the_order_is_a_function_of_the_seed_and_stays_what_it_is) {
  RowOrder order(10, true, 42), other(10, true, 43);
  const std::vector<std::int64_t> rows = epoch_of(order, 10, 0);
  BOOST_TEST(rows != epoch_of(other, 10, 0));
  const std::vector<std::int64_t> recorded = {4, 9, 8, 7, 3, 6, 5, 2, 1, 0};
  BOOST_TEST(rows == recorded);
}

BOOST_AUTO_TEST_CASE(all_orders_of_four_rows_are_equally_likely) {
  std::map<std::vector<std::int64_t>, int> times;
  constexpr int num_draws = 24000;
  for (std::uint64_t seed = 0; seed < num_draws; ++seed) {
    RowOrder order(4, true, seed);
    ++times[epoch_of(order, 4, 0)];
  }
  BOOST_TEST(times.size() == 24u);
  for (const auto& [order, count] : times) BOOST_TEST(std::abs(count - num_draws / 24) < 160);  // 5 sigma
}

BOOST_AUTO_TEST_SUITE_END()
