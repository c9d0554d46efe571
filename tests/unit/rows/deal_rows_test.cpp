// SPDX-License-Identifier: Apache-2.0
#include "rows/step_rows.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <random>

using namespace sft::rows;

namespace {

std::int64_t tokens_of(const std::vector<std::int64_t>& slot, const std::vector<std::int32_t>& lengths) {
  std::int64_t sum = 0;
  for (const std::int64_t row : slot) sum += lengths[static_cast<std::size_t>(row)];
  return sum;
}

/// Mean over the micro-batches of: what its fullest slot is above the mean of its slots.
double imbalance(const std::vector<std::vector<std::int64_t>>& slots, const std::vector<std::int32_t>& lengths,
                 std::int64_t data_size) {
  double fullest_of_all = 0.0, sum = 0.0;
  for (std::size_t first = 0; first < slots.size(); first += static_cast<std::size_t>(data_size)) {
    double fullest = 0.0;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(data_size); ++i) {
      const auto tokens = static_cast<double>(tokens_of(slots[i], lengths));
      fullest = std::max(fullest, tokens);
      sum += tokens;
    }
    fullest_of_all += fullest;
  }
  return fullest_of_all * static_cast<double>(data_size) / sum - 1.0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dealing_rows)

BOOST_AUTO_TEST_CASE(every_row_has_one_slot_and_slots_are_nearly_equal) {
  std::mt19937 generator(11);
  for (const StepSlots& shape : {StepSlots{1, 2, 8}, StepSlots{1, 7, 4}, StepSlots{4, 4, 8}, StepSlots{8, 3, 1}}) {
    std::vector<std::int32_t> lengths;
    const std::int64_t num_rows = shape.micro_batches * shape.data_size * shape.rows_per_slot;
    for (std::int64_t i = 0; i < num_rows; ++i) {
      lengths.push_back(static_cast<std::int32_t>(10 + (generator() % 10 == 0 ? generator() % 500 : generator() % 60)));
    }
    const auto slots = deal_rows(lengths, shape);
    BOOST_TEST((slots == deal_rows(lengths, shape)));
    BOOST_TEST_REQUIRE(std::ssize(slots) == shape.micro_batches * shape.data_size);
    std::vector<std::int64_t> rows;
    for (const auto& slot : slots) {
      BOOST_TEST(std::ssize(slot) == shape.rows_per_slot);
      BOOST_TEST(std::ranges::is_sorted(slot));
      rows.insert(rows.end(), slot.begin(), slot.end());
    }
    std::ranges::sort(rows);
    std::vector<std::int64_t> all(static_cast<std::size_t>(num_rows));
    std::iota(all.begin(), all.end(), std::int64_t{0});
    BOOST_TEST(rows == all, boost::test_tools::per_element());
    std::vector<std::vector<std::int64_t>> in_order(slots.size());
    for (const std::int64_t row : all) in_order[static_cast<std::size_t>(row / shape.rows_per_slot)].push_back(row);
    BOOST_TEST(imbalance(slots, lengths, shape.data_size) < imbalance(in_order, lengths, shape.data_size) / 2);
  }
}

BOOST_AUTO_TEST_CASE(ranks_of_a_micro_batch_get_rows_of_like_length) {
  // One row a slot: what can be equal are the slots of one micro-batch.
  const auto slots = deal_rows({100, 10, 99, 11, 98, 12}, {3, 2, 1});
  const std::vector<std::vector<std::int64_t>> expected = {{0}, {2}, {4}, {5}, {3}, {1}};
  BOOST_TEST((slots == expected));
}

BOOST_AUTO_TEST_CASE(rows_that_are_nearly_full_keep_their_order) {
  const std::vector<std::vector<std::int64_t>> in_order = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
  BOOST_TEST((deal_rows(std::vector<std::int32_t>(8, 512), {2, 2, 2}) == in_order));
  BOOST_TEST((deal_rows({512, 510, 512, 505, 511, 512, 509, 512}, {2, 2, 2}) == in_order));
  BOOST_TEST((deal_rows({1, 500, 2, 400, 3, 300, 4, 200}, {4, 1, 2}) == in_order));  // one rank waits for none
}

BOOST_AUTO_TEST_CASE(fewer_rows_than_there_is_room_for_are_spread) {
  const auto slots = deal_rows({50, 50, 50}, {1, 4, 2});
  BOOST_TEST(std::ranges::count_if(slots, [](const auto& slot) { return slot.size() == 1; }) == 3);
  BOOST_TEST(deal_rows({}, {1, 2, 2}).size() == 2U);
  BOOST_CHECK_THROW((void)deal_rows({1, 1, 1}, {1, 2, 1}), std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()
