// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/loader.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "sft/core/error.hpp"
#include "sft/rows/row_order.hpp"
#include "sft/sequence/row_cut.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"

using namespace sft::rows;

namespace {

constexpr std::int64_t num_rows = 20, max_length = 8, vocab_size = 64;

/// Row r holds the token r everywhere, in documents of 3 and 4 tokens.
std::vector<Row> make_rows() {
  std::vector<Row> rows;
  for (std::int32_t r = 0; r < num_rows; ++r) {
    rows.push_back({.tokens = std::vector<std::int32_t>(max_length, r),
                    .loss_weight = {0, 1, 1, 0, 1, 1, 0.5f, 0},
                    .document_lengths = {3, 4}});
  }
  return rows;
}

struct Fixture {
  Fixture() { sft::test::write_packed_file(folder.file("train-00000.h5"), make_rows(), vocab_size); }
  sft::test::TemporaryFolder folder;
  PackedDataset open() const { return PackedDataset({folder.file("train-*.h5")}); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(loader, Fixture)

BOOST_AUTO_TEST_CASE(steps_come_in_order_with_the_rows_of_this_rank) {
  const PackedDataset dataset = open();  // of the loader, whose thread reads it
  const PackedDataset same_rows = open();
  const LoaderPlan plan = {.rows_per_micro_batch = 2,
                           .micro_batches = 3,
                           .data_size = 2,
                           .data_rank = 1,
                           .sp_size = 2,
                           .sp_rank = 1,
                           .first_step = 1,
                           .last_step = 6,
                           .order = OrderKind::endless,
                           .shuffle = true,
                           .seed = 9};
  Loader loader(dataset, plan);
  RowOrder order(OrderKind::endless, num_rows, true, 9);
  for (std::int64_t step = 1; step < 6; ++step) {
    std::vector<Row> rows;
    BatchCounts step_counts;
    for (std::int64_t micro = 0; micro < 3; ++micro) {
      const MicroBatch batch = loader.next();
      std::vector<Row> rows_of_batch;
      for (std::int64_t i = 0; i < 2; ++i) {
        const std::int64_t row = order.row_at(step * 12 + (micro * 2 + 1) * 2 + i);
        BOOST_TEST(batch.rows[static_cast<std::size_t>(i)] == row);
        rows_of_batch.push_back(same_rows.read_row(row));
        // Two rows of 7 tokens and 2 of padding in 4 chunks, of which this rank has the inner ones, half of each row.
        BOOST_TEST(batch.tokens[static_cast<std::size_t>(i * 4)] == row);
      }
      BOOST_TEST(std::ssize(batch.tokens) == 2 * max_length / 2);
      BOOST_TEST(batch.counts.num_tokens == count_rows(rows_of_batch).num_tokens);
      step_counts = batch.step_counts;
      rows.insert(rows.end(), rows_of_batch.begin(), rows_of_batch.end());
    }
    const BatchCounts counts = count_rows(rows);
    BOOST_TEST(step_counts.num_tokens == counts.num_tokens);
    BOOST_TEST(step_counts.num_target_tokens == counts.num_target_tokens);
    BOOST_TEST(step_counts.weight_sum == counts.weight_sum);
    BOOST_TEST(step_counts.length_squares == counts.length_squares);
  }
}

BOOST_AUTO_TEST_CASE(all_meshes_train_on_the_same_rows_in_every_step) {
  const PackedDataset dataset = open();
  std::optional<std::vector<std::vector<std::int64_t>>> expected;
  for (const auto& [data_size, per_rank, micro_batches] :
       {std::tuple{1, 6, 1}, std::tuple{2, 3, 1}, std::tuple{3, 1, 2}, std::tuple{1, 1, 6}, std::tuple{6, 1, 1}}) {
    std::vector<std::vector<std::int64_t>> rows_of_step(7);
    for (int rank = 0; rank < data_size; ++rank) {
      Loader loader(dataset, {.rows_per_micro_batch = per_rank,
                              .micro_batches = micro_batches,
                              .data_size = data_size,
                              .data_rank = rank,
                              .last_step = 7});
      for (std::vector<std::int64_t>& rows : rows_of_step) {
        for (int micro = 0; micro < micro_batches; ++micro) {
          const MicroBatch batch = loader.next();
          rows.insert(rows.end(), batch.rows.begin(), batch.rows.end());
        }
      }
    }
    for (std::vector<std::int64_t>& rows : rows_of_step) std::sort(rows.begin(), rows.end());
    if (!expected) expected = rows_of_step;
    BOOST_TEST((rows_of_step == *expected));
  }
}

BOOST_AUTO_TEST_CASE(a_resumed_loader_continues_the_order) {
  const PackedDataset dataset = open();
  const PackedDataset same_rows = open();
  Loader whole(dataset, {.rows_per_micro_batch = 3, .last_step = 12});
  Loader resumed(same_rows, {.rows_per_micro_batch = 3, .first_step = 8, .last_step = 12});
  for (int step = 0; step < 8; ++step) (void)whole.next();
  for (int step = 8; step < 12; ++step) BOOST_TEST(whole.next().rows == resumed.next().rows);
}

BOOST_AUTO_TEST_CASE(an_epoch_has_every_row_once_on_any_number_of_ranks) {
  const PackedDataset dataset = open();
  for (const auto& [data_size, per_rank] : {std::pair{1, 1}, std::pair{3, 2}, std::pair{7, 1}, std::pair{4, 8}}) {
    const std::int64_t num_steps = (num_rows + data_size * per_rank - 1) / (data_size * per_rank);
    std::vector<std::int64_t> rows, expected;
    BatchCounts counts;
    for (int rank = 0; rank < data_size; ++rank) {
      Loader loader(dataset, {.rows_per_micro_batch = per_rank,
                              .data_size = data_size,
                              .data_rank = rank,
                              .last_step = num_steps,
                              .shuffle = false});
      for (std::int64_t step = 0; step < num_steps; ++step) {
        const MicroBatch batch = loader.next();
        const auto num_rows_read = std::ssize(batch.rows);
        BOOST_TEST(num_rows_read <= per_rank);
        BOOST_TEST(std::ssize(batch.tokens) ==
                   sft::sequence::joined_row_length(7 * num_rows_read, max_length * num_rows_read, 1));
        rows.insert(rows.end(), batch.rows.begin(), batch.rows.end());
        counts.num_tokens += batch.counts.num_tokens;
        counts.weight_sum += batch.counts.weight_sum;
      }
    }
    std::sort(rows.begin(), rows.end());
    for (std::int64_t row = 0; row < num_rows; ++row) expected.push_back(row);
    BOOST_TEST(rows == expected, boost::test_tools::per_element());
    const BatchCounts all = count_rows(make_rows());
    BOOST_TEST(counts.num_tokens == all.num_tokens);
    BOOST_TEST(counts.weight_sum == all.weight_sum);
  }
}

BOOST_AUTO_TEST_CASE(asking_past_the_last_step_is_a_bug_and_no_hang) {
  const PackedDataset dataset = open();
  Loader loader(dataset, {.last_step = 1});
  (void)loader.next();
  BOOST_CHECK_THROW((void)loader.next(), std::logic_error);
  Loader empty(dataset, {.first_step = 4, .last_step = 4});
  BOOST_CHECK_THROW((void)empty.next(), std::logic_error);
}

BOOST_AUTO_TEST_CASE(the_order_of_rows_counts_where_there_is_one) {
  const PackedDataset dataset = open();
  LoaderPlan plan = {.last_step = 10};
  const std::size_t shuffled = loader_bytes(dataset, plan);
  plan.shuffle = false;
  BOOST_TEST(shuffled - loader_bytes(dataset, plan) == 4U * num_rows);  // one shard: chunks are kept either way
  plan.last_step = 0;
  BOOST_TEST(loader_bytes(dataset, plan) == 0U);
}

BOOST_AUTO_TEST_CASE(a_loader_can_be_left_at_any_time) {
  const PackedDataset dataset = open();
  for (int taken = 0; taken < 6; ++taken) {
    Loader loader(dataset, {.last_step = 1'000'000'000});
    for (int step = 0; step < taken; ++step) (void)loader.next();
  }
}

BOOST_AUTO_TEST_CASE(errors_of_the_thread_come_after_the_steps_before_them) {
  std::vector<Row> rows = make_rows();
  rows[3].tokens[5] = vocab_size;  // outside the vocabulary
  sft::test::write_packed_file(folder.file("bad.h5"), rows, vocab_size);
  const PackedDataset dataset({folder.file("bad.h5")});
  Loader loader(dataset, {.last_step = num_rows, .shuffle = false});
  for (std::int64_t step = 0; step < 3; ++step) BOOST_TEST(loader.next().rows.front() == step);
  for (int again = 0; again < 2; ++again) {
    BOOST_CHECK_EXCEPTION((void)loader.next(), sft::Error, [](const sft::Error& error) {
      return error.status() == sft::ExitStatus::data && std::string(error.what()).find("bad.h5") != std::string::npos;
    });
  }
}

BOOST_AUTO_TEST_CASE(rows_of_mixed_lengths_are_dealt_evenly_and_counted_before_they_come) {
  constexpr std::int64_t wide = 64, per_rank = 4, micro_batches = 2, data_size = 3;
  std::vector<Row> rows;
  for (std::int32_t r = 0; r < 48; ++r) {
    rows.push_back({.tokens = std::vector<std::int32_t>(wide, 1),
                    .loss_weight = std::vector<float>(wide, 0.5f),
                    .document_lengths = {r % 8 == 0 ? 60 : 2 + r % 9}});
  }
  sft::test::write_packed_file(folder.file("mixed.h5"), rows, vocab_size);
  const PackedDataset dataset({folder.file("mixed.h5")});
  std::vector<std::vector<std::int64_t>> tokens(micro_batches, std::vector<std::int64_t>(data_size));
  std::vector<std::int64_t> seen;
  for (int rank = 0; rank < data_size; ++rank) {
    Loader loader(dataset, {.rows_per_micro_batch = per_rank,
                            .micro_batches = micro_batches,
                            .data_size = data_size,
                            .data_rank = rank,
                            .last_step = 2});
    for (int step = 0; step < 2; ++step) {
      BatchCounts sum;
      BatchCounts announced;
      for (std::size_t micro = 0; micro < micro_batches; ++micro) {
        const MicroBatch batch = loader.next();
        if (micro == 0) announced = batch.step_counts;
        sum += batch.counts;
        if (step == 0) tokens[micro][static_cast<std::size_t>(rank)] = batch.counts.num_tokens;
        seen.insert(seen.end(), batch.rows.begin(), batch.rows.end());
      }
      BOOST_TEST(announced.num_tokens == sum.num_tokens);
      BOOST_TEST(announced.num_target_tokens == sum.num_target_tokens);
      BOOST_TEST(announced.weight_sum == sum.weight_sum);
    }
  }
  for (const std::vector<std::int64_t>& of_ranks : tokens) {
    BOOST_TEST(*std::ranges::max_element(of_ranks) - *std::ranges::min_element(of_ranks) <= 10);
  }
  std::ranges::sort(seen);
  for (std::int64_t row = 0; row < 48; ++row) BOOST_TEST(seen[static_cast<std::size_t>(row)] == row);
}

BOOST_AUTO_TEST_CASE(memory_does_not_grow_with_the_micro_batches_of_a_step) {
  const PackedDataset dataset = open();
  const LoaderPlan few{.rows_per_micro_batch = 4, .micro_batches = 2, .last_step = 10'000};  // more than wait
  LoaderPlan many = few;
  many.micro_batches = 1000;
  const std::size_t numbers_of_rows = 8 * 4 * 4 * (1000 - 2);
  BOOST_TEST(loader_bytes(dataset, many) - loader_bytes(dataset, few) == numbers_of_rows);
}

BOOST_AUTO_TEST_CASE(rows_that_one_rank_reads_are_cut_as_if_each_had_read_them) {
  for (const std::int64_t first_step : {0, 3}) {
    LoaderPlan plan{.rows_per_micro_batch = 2,
                    .micro_batches = 2,
                    .data_size = 3,
                    .data_rank = 2,
                    .sp_size = 2,
                    .sharing_size = 4,
                    .first_step = first_step,
                    .last_step = 5};  // the last step of an epoch leaves this rank an empty micro-batch
    const PackedDataset dataset = open(), same_rows = open();
    RowLoader reader(dataset, plan);
    std::vector<std::string> messages;
    for (int i = 0; i < (5 - first_step) * 2; ++i) messages.push_back(reader.next());
    BOOST_CHECK_THROW((void)reader.next(), std::logic_error);
    for (const int sp_rank : {0, 1}) {
      plan.sp_rank = sp_rank;
      plan.sharing_rank = 2 * sp_rank + 1;
      Loader loader(same_rows, plan);
      for (const std::string& message : messages) {
        const MicroBatch batch = cut_packed_rows(message, plan), expected = loader.next();
        BOOST_TEST(batch.tokens == expected.tokens, boost::test_tools::per_element());
        BOOST_TEST(batch.positions == expected.positions, boost::test_tools::per_element());
        BOOST_TEST(batch.targets == expected.targets, boost::test_tools::per_element());
        BOOST_TEST(batch.loss_weights == expected.loss_weights, boost::test_tools::per_element());
        BOOST_TEST(batch.rows == expected.rows, boost::test_tools::per_element());
        BOOST_TEST((batch.attention.front().rounds == expected.attention.front().rounds));
        BOOST_TEST((batch.counts == expected.counts));
        BOOST_TEST((batch.step_counts == expected.step_counts));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(only_the_rank_that_reads_has_memory_for_it) {
  const PackedDataset dataset = open();
  LoaderPlan plan{.rows_per_micro_batch = 2, .data_size = 2, .sharing_size = 4, .last_step = 1000};
  const std::size_t reader = loader_bytes(dataset, plan);
  plan.sharing_rank = 3;
  BOOST_TEST(loader_bytes(dataset, plan) < reader / 10);
  BOOST_TEST(loader_bytes(dataset, plan) > 0U);
}

BOOST_AUTO_TEST_SUITE_END()
