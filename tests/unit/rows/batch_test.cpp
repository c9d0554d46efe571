// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/batch.hpp"

#include <boost/test/unit_test.hpp>
#include <numeric>
#include <random>

#include "sft/sequence/row_cut.hpp"

using namespace sft::rows;

namespace {

Row random_row(std::mt19937& generator, std::int32_t max_length) {
  Row row;
  std::int32_t left = max_length - static_cast<std::int32_t>(generator() % static_cast<unsigned>(max_length));
  const std::int32_t filled = left;
  while (left > 0) {
    const std::int32_t length = 1 + static_cast<std::int32_t>(generator() % static_cast<unsigned>(left));
    row.document_lengths.push_back(length);
    left -= length;
  }
  for (std::int32_t i = 0; i < max_length; ++i) {
    row.tokens.push_back(i < filled ? static_cast<std::int32_t>(1 + generator() % 90) : 0);
    row.loss_weight.push_back(i < filled ? static_cast<float>(generator() % 3) / 2.0f : 0.0f);
  }
  return row;
}

/// Of one position of a row, by looking for its document.
struct Expected {
  std::int32_t token = 0, position = 0, target = 0;
  float weight = 0.0f;
};

Expected expected_at(const Row& row, std::int64_t index) {
  Expected expected{.token = row.tokens[static_cast<std::size_t>(index)]};
  std::int64_t begin = 0;
  for (const std::int32_t length : row.document_lengths) {
    const bool inside = index >= begin && index < begin + length;
    if (inside) expected.position = static_cast<std::int32_t>(index - begin);
    if (inside && index + 1 < begin + length) {
      expected.target = row.tokens[static_cast<std::size_t>(index + 1)];
      expected.weight = row.loss_weight[static_cast<std::size_t>(index + 1)];
    }
    begin += length;
  }
  return expected;
}

/// The positions of a row that sp rank `sp_rank` holds, in its order.
std::vector<std::int64_t> zigzag(std::int64_t max_length, int sp_size, int sp_rank) {
  std::vector<std::int64_t> indices;
  if (sp_size == 1) {
    for (std::int64_t i = 0; i < max_length; ++i) indices.push_back(i);
    return indices;
  }
  const std::int64_t chunk = max_length / (2 * sp_size);
  for (const std::int64_t c : {sp_rank, 2 * sp_size - 1 - sp_rank}) {
    for (std::int64_t i = 0; i < chunk; ++i) indices.push_back(c * chunk + i);
  }
  return indices;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(batch)

BOOST_AUTO_TEST_CASE(every_cut_holds_what_the_joined_documents_say) {
  std::mt19937 generator(5);
  for (const int sp_size : {1, 2, 3, 4}) {
    for (int round = 0; round < 20; ++round) {
      const std::int32_t max_length = 2 * sp_size * static_cast<std::int32_t>(1 + generator() % 9);
      const std::vector<Row> rows = {random_row(generator, max_length), random_row(generator, max_length)};
      std::vector<Expected> joined;
      std::vector<std::int32_t> documents;
      for (const Row& row : rows) {
        const auto num_tokens = std::accumulate(row.document_lengths.begin(), row.document_lengths.end(), 0);
        for (std::int32_t i = 0; i < num_tokens; ++i) joined.push_back(expected_at(row, i));
        documents.insert(documents.end(), row.document_lengths.begin(), row.document_lengths.end());
      }
      const std::int64_t length =
          sft::sequence::joined_row_length(std::ssize(joined), std::int64_t{2} * max_length, sp_size);
      joined.resize(static_cast<std::size_t>(length));
      for (int sp_rank = 0; sp_rank < sp_size; ++sp_rank) {
        const MicroBatch batch = cut_rows(rows, sp_size, sp_rank);
        const std::vector<std::int64_t> indices = zigzag(length, sp_size, sp_rank);
        BOOST_REQUIRE(batch.tokens.size() == indices.size());
        BOOST_REQUIRE(batch.positions.size() == indices.size());
        BOOST_REQUIRE(batch.targets.size() == indices.size());
        BOOST_REQUIRE(batch.loss_weights.size() == indices.size());
        for (std::size_t t = 0; t < indices.size(); ++t) {
          const Expected& expected = joined[static_cast<std::size_t>(indices[t])];
          BOOST_TEST(batch.tokens[t] == expected.token);
          BOOST_TEST(batch.positions[t] == expected.position);
          BOOST_TEST(batch.targets[t] == expected.target);
          BOOST_TEST(batch.loss_weights[t] == expected.weight);
        }
        const sft::sequence::AttentionSchedule schedule =
            sft::sequence::schedule_ring({documents}, {length, sp_size}, sft::SpRank::from(sp_rank));
        BOOST_TEST(batch.attention.size() == 1);
        BOOST_TEST(batch.attention.front().num_tokens == std::ssize(indices));
        BOOST_TEST((batch.attention.front().rounds == schedule.rounds));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_micro_batch_has_a_schedule_for_each_window) {
  const Row row = {.tokens = std::vector<std::int32_t>(40, 5),
                   .loss_weight = std::vector<float>(40, 1.0f),
                   .document_lengths = {25, 4, 10}};
  const sft::sequence::AttentionWindows windows = {0, 7, 30};
  const MicroBatch batch = cut_rows({row}, 1, 0, {}, 1, windows);
  BOOST_TEST(batch.attention.size() == 3);
  for (const sft::sequence::AttentionKind kind : windows.indices()) {
    const auto expected = sft::sequence::schedule_ring({{25, 4, 10}}, {39, 1}, 0, windows[kind]);
    BOOST_TEST((batch.attention[kind].rounds == expected.rounds));
  }
  // Twice the pairs that a query's window leaves out are about the square of what lies in front of the last one's.
  BOOST_TEST((batch.masked_squares == sft::IndexedVector<sft::sequence::AttentionKind, double>{0.0, 333.0, 0.0}));
}

BOOST_AUTO_TEST_CASE(padding_is_no_part_of_a_micro_batch) {
  const auto row_of = [](std::int32_t length) {
    return Row{.tokens = std::vector<std::int32_t>(1000, 5),
               .loss_weight = std::vector<float>(1000, 1.0f),
               .document_lengths = {length}};
  };
  const MicroBatch batch = cut_rows({row_of(10), row_of(1), row_of(3)}, 1, 0);
  BOOST_TEST(batch.tokens.size() == 14u);
  BOOST_TEST(cut_rows({row_of(10), row_of(1), row_of(3)}, 2, 1).tokens.size() == 8u);
  // From 1024 tokens on there are 16 lengths, 64 apart; never more than the rows can hold.
  BOOST_TEST(cut_rows({row_of(1000), row_of(100)}, 1, 0).tokens.size() == 1152u);
  BOOST_TEST(cut_rows({row_of(1000), row_of(990)}, 1, 0).tokens.size() == 2000u);
  // Ranks that cut their tokens further get a number that divides, also without a document.
  const MicroBatch divisible = cut_rows({row_of(10), row_of(1), row_of(3)}, 1, 0, {}, 3);
  BOOST_TEST(divisible.tokens.size() == 15u);
  BOOST_TEST(divisible.attention.front().num_tokens == 15);
  BOOST_TEST(std::equal(batch.tokens.begin(), batch.tokens.end(), divisible.tokens.begin()));
  BOOST_TEST(divisible.loss_weights.back() == 0.0f);
  BOOST_TEST(cut_rows({row_of(10), row_of(1), row_of(3)}, 2, 1, {}, 6).tokens.size() == 12u);
  BOOST_TEST(cut_rows({row_of(0)}, 1, 0, {}, 4).tokens.size() == 4u);
}

BOOST_AUTO_TEST_CASE(targets_never_cross_documents) {
  const Row row = {
      .tokens = {10, 11, 20, 30, 31, 0}, .loss_weight = {1, 1, 1, 1, 0.5f, 0}, .document_lengths = {2, 1, 2}};
  const MicroBatch batch = cut_rows({row, row}, 1, 0);
  BOOST_TEST(batch.targets == (std::vector<std::int32_t>{11, 0, 0, 31, 0, 11, 0, 0, 31, 0}));
  BOOST_TEST(batch.loss_weights == (std::vector<float>{1, 0, 0, 0.5f, 0, 1, 0, 0, 0.5f, 0}));
  BOOST_TEST(batch.positions == (std::vector<std::int32_t>{0, 1, 0, 0, 1, 0, 1, 0, 0, 1}));
}

BOOST_AUTO_TEST_CASE(counts_leave_out_padding_and_first_tokens) {
  const Row row = {.tokens = {10, 11, 12, 20, 30, 31, 7, 7},
                   .loss_weight = {1, 1, 0.25f, 1, 1, 0, 1, 1},  // those of the padding must not count
                   .document_lengths = {3, 1, 2}};
  const BatchCounts counts = count_rows({row, row});
  BOOST_TEST(counts.num_tokens == 12);
  BOOST_TEST(counts.num_target_tokens == 4);
  BOOST_TEST(counts.weight_sum == 2.5);
  BOOST_TEST(counts.length_squares == 28.0);
}

BOOST_AUTO_TEST_CASE(counts_agree_with_the_sum_over_all_cuts) {
  std::mt19937 generator(6);
  for (const int sp_size : {1, 2, 3, 4}) {
    const std::vector<Row> rows = {random_row(generator, 48), random_row(generator, 48), random_row(generator, 48)};
    const BatchCounts counts = count_rows(rows);
    std::int64_t num_targets = 0;
    double weight_sum = 0.0;
    for (int sp_rank = 0; sp_rank < sp_size; ++sp_rank) {
      for (const float weight : cut_rows(rows, sp_size, sp_rank).loss_weights) {
        num_targets += weight > 0.0f ? 1 : 0;
        weight_sum += static_cast<double>(weight);
      }
    }
    BOOST_TEST(counts.num_target_tokens == num_targets);
    BOOST_TEST(counts.weight_sum == weight_sum);
  }
}

BOOST_AUTO_TEST_CASE(a_row_of_padding_alone_counts_nothing) {
  const Row row = {.tokens = {0, 0, 0, 0}, .loss_weight = {0, 0, 0, 0}, .document_lengths = {}};
  const BatchCounts counts = count_rows({row});
  BOOST_TEST(counts.num_tokens == 0);
  BOOST_TEST(counts.weight_sum == 0.0);
  // Its ranks take part in what the others do, with the least that can be cut.
  BOOST_TEST(cut_rows({row}, 2, 1).tokens.size() == 2u);
  BOOST_TEST(cut_rows({row, Row{}}, 1, 0).tokens.size() == 1u);
  const MicroBatch empty = cut_rows({Row{}}, 3, 2);
  BOOST_TEST(empty.tokens.size() == 2u);
  BOOST_TEST(empty.attention.front().num_tokens == 2);
  for (const sft::sequence::AttentionRound& round : empty.attention.front().rounds) BOOST_TEST(round.spans.empty());
}

BOOST_AUTO_TEST_CASE(rows_of_any_lengths_make_one_micro_batch) {
  const Row row = {.tokens = {1, 2, 3}, .loss_weight = {0, 1, 1}, .document_lengths = {3}};
  const Row longer = {.tokens = {4, 5, 6, 7}, .loss_weight = {0, 1, 1, 1}, .document_lengths = {4}};
  BOOST_TEST(cut_rows({row, longer}, 1, 0).tokens == (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7}),
             boost::test_tools::per_element());
  BOOST_TEST(cut_rows({row}, 2, 0).tokens == (std::vector<std::int32_t>{1, 0}), boost::test_tools::per_element());
  BOOST_CHECK_THROW((void)cut_rows({row}, 1, 1), std::logic_error);
  BOOST_CHECK_THROW((void)cut_rows({}, 1, 0), std::logic_error);
}

BOOST_AUTO_TEST_CASE(parts_say_which_row_and_place_each_token_has) {
  std::vector<Row> rows;
  for (const std::int32_t length : {7, 0, 3, 12}) {
    Row row{std::vector<std::int32_t>(20), std::vector<float>(20, 1.0F), {length / 2, length - length / 2}};
    for (std::int32_t t = 0; t < 20; ++t) row.tokens[t] = 100 * static_cast<std::int32_t>(rows.size()) + t + 1;
    rows.push_back(row);
  }
  for (const int sp_size : {1, 2, 3}) {
    std::int64_t num_tokens = 0;
    for (int sp_rank = 0; sp_rank < sp_size; ++sp_rank) {
      const MicroBatch batch = cut_rows(rows, sp_size, sp_rank);
      std::vector<std::int32_t> seen(batch.tokens.size());
      for (const RowPart& part : batch.row_parts) {
        const Row& row = rows.at(part.row);
        BOOST_TEST(part.row_tokens == row.document_lengths[0] + row.document_lengths[1]);
        for (std::int64_t i = 0; i < part.num_tokens; ++i) seen.at(part.local + i) = row.tokens.at(part.from + i);
        num_tokens += part.num_tokens;
      }
      BOOST_TEST(seen == batch.tokens, boost::test_tools::per_element());
    }
    BOOST_TEST(num_tokens == 7 + 3 + 12);
  }
}

BOOST_AUTO_TEST_SUITE_END()
