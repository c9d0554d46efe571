// SPDX-License-Identifier: Apache-2.0
#include "sft/model/head_split.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <vector>

namespace sft::model {

namespace {

config::Model heads_of(int num_heads, int num_kv_heads) {
  config::Model model;
  model.num_attention_heads = num_heads;
  model.num_key_value_heads = num_kv_heads;
  return model;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(head_split)

BOOST_AUTO_TEST_CASE(heads_are_split_evenly) {
  for (int tp_size : {1, 2, 4}) {
    for (const TpRank rank : IndexRange<TpRank>(tp_size)) {
      const HeadSplit split = split_heads(heads_of(8, 4), tp_size, rank);
      BOOST_TEST(split.q_heads == 8 / tp_size);
      BOOST_TEST(split.kv_heads == 4 / tp_size);
      BOOST_TEST(split.kv_begin == rank * split.kv_heads);
      BOOST_TEST(split.kv_replicas == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(key_value_heads_fewer_than_ranks_are_replicated) {
  const std::vector<int> expected_begins = {0, 0, 0, 0, 1, 1, 1, 1};
  for (const TpRank rank : IndexRange<TpRank>(8)) {
    const HeadSplit split = split_heads(heads_of(16, 2), 8, rank);
    BOOST_TEST(split.q_heads == 2);
    BOOST_TEST(split.kv_heads == 1);
    BOOST_TEST(split.kv_begin == expected_begins[static_cast<std::size_t>(rank)]);
    BOOST_TEST(split.kv_replicas == 4);
  }
  BOOST_TEST(kv_replicas(heads_of(16, 2), 8) == 4);
  BOOST_TEST(kv_replicas(heads_of(16, 2), 2) == 1);
}

BOOST_AUTO_TEST_CASE(every_query_head_finds_its_key_value_head) {
  for (const auto& [num_heads, num_kv_heads, tp_size] :
       std::vector<std::array<int, 3>>{{8, 8, 4}, {8, 2, 4}, {16, 4, 2}, {12, 3, 6}}) {
    for (const TpRank rank : IndexRange<TpRank>(tp_size)) {
      const HeadSplit split = split_heads(heads_of(num_heads, num_kv_heads), tp_size, rank);
      for (int local = 0; local < split.q_heads; ++local) {
        const int global_kv = (rank * split.q_heads + local) / (num_heads / num_kv_heads);
        BOOST_TEST(global_kv == split.kv_begin + local / (split.q_heads / split.kv_heads));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(indivisible_heads_are_a_bug) {
  BOOST_CHECK_THROW((void)split_heads(heads_of(6, 6), 4, 0), std::logic_error);
  BOOST_CHECK_THROW((void)split_heads(heads_of(12, 6), 4, 0), std::logic_error);
  BOOST_CHECK_THROW((void)split_heads(heads_of(8, 3), 4, 0), std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::model
