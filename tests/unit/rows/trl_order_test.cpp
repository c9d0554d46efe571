// SPDX-License-Identifier: Apache-2.0
// TRL's order of rows, against what torch and transformers have (make_torch_orders.py).

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "sft/rows/loader.hpp"
#include "sft/rows/row_order.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"

using namespace sft::rows;

BOOST_AUTO_TEST_SUITE(trl_order)

namespace {

/// Words of the lines of torch_orders.txt that begin with `kind`, the others as numbers.
std::vector<std::vector<std::uint64_t>> recorded(const std::string& kind) {
  std::ifstream file(SFT_SOURCE_DIR "/tests/unit/rows/torch_orders.txt");
  std::vector<std::vector<std::uint64_t>> lines;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first != kind) continue;
    std::vector<std::uint64_t>& numbers = lines.emplace_back();
    for (std::uint64_t number; words >> number;) numbers.push_back(number);
  }
  return lines;
}

std::string text_of(const std::vector<std::uint64_t>& numbers) {
  std::string text;
  for (const std::uint64_t number : numbers) text += std::to_string(number) + " ";
  return text;
}

/// A data set of num_rows rows, gone at the end of the test.
class Rows {
 public:
  explicit Rows(std::int64_t num_rows) {
    std::vector<Row> rows;
    for (std::int64_t r = 0; r < num_rows; ++r) {
      rows.push_back({.tokens = std::vector<std::int32_t>(8, 1),
                      .loss_weight = std::vector<float>(8, 1.0f),
                      .document_lengths = {2 + static_cast<std::int32_t>(r) % 7}});
    }
    sft::test::write_packed_file(folder_.file("rows.h5"), rows, 64);
  }
  [[nodiscard]] PackedDataset open() const { return PackedDataset({folder_.file("rows.h5")}); }

 private:
  sft::test::TemporaryFolder folder_;
};

/// The rows that all data ranks of `plan` together have in each step, sorted.
std::vector<std::vector<std::uint64_t>> rows_of_steps(const Rows& rows, LoaderPlan plan) {
  std::vector<std::vector<std::uint64_t>> steps(static_cast<std::size_t>(plan.last_step - plan.first_step));
  for (plan.data_rank = 0; plan.data_rank < plan.data_size; ++plan.data_rank) {
    const PackedDataset dataset = rows.open();
    Loader loader(dataset, plan);
    for (std::vector<std::uint64_t>& step : steps) {
      BatchCounts announced, sum;
      for (std::int64_t micro = 0; micro < plan.micro_batches; ++micro) {
        const MicroBatch batch = loader.next();
        if (micro == 0) announced = batch.step_counts;
        sum += batch.counts;
        step.insert(step.end(), batch.rows.begin(), batch.rows.end());
      }
      BOOST_TEST(announced.num_tokens == sum.num_tokens);
    }
  }
  for (std::vector<std::uint64_t>& step : steps) std::ranges::sort(step);
  return steps;
}

}  // namespace

BOOST_AUTO_TEST_CASE(epochs_are_those_of_torch, *boost::unit_test::label("long")) {
  const auto lines = recorded("epoch");
  BOOST_TEST_REQUIRE(lines.size() > 60U);
  for (const std::vector<std::uint64_t>& line : lines) {
    const auto num_rows = static_cast<std::int64_t>(line[0]);
    const auto first = static_cast<std::int64_t>(line[2]) * num_rows;
    RowOrder order(OrderKind::trl, num_rows, true, line[1]);
    std::uint64_t sum = 0;
    std::vector<std::uint64_t> rows;
    for (std::int64_t i = 0; i < num_rows; ++i) {
      const auto row = static_cast<std::uint64_t>(order.row_at(first + i));
      sum += static_cast<std::uint64_t>(i + 1) * row;
      if (i < 40) rows.push_back(row);
    }
    BOOST_TEST(sum == line[3], text_of({line[0], line[1], line[2]}));
    BOOST_TEST((rows == std::vector<std::uint64_t>(line.begin() + 4, line.end())),
               text_of({line[0], line[1], line[2]}));
  }
}

BOOST_AUTO_TEST_CASE(steps_are_those_of_transformers_on_every_mesh_and_after_every_resume) {
  const auto lines = recorded("step");
  BOOST_TEST_REQUIRE(lines.size() > 30U);
  for (std::size_t begin = 0, end = 0; begin < lines.size(); begin = end) {
    const auto num_rows = static_cast<std::int64_t>(lines[begin][0]),
               batch = static_cast<std::int64_t>(lines[begin][2]);
    std::vector<std::vector<std::uint64_t>> expected;
    for (; end < lines.size() && std::equal(lines[begin].begin(), lines[begin].begin() + 3, lines[end].begin());
         ++end) {
      std::ranges::sort(expected.emplace_back(lines[end].begin() + 4, lines[end].end()));
    }
    const Rows rows(num_rows);
    const std::int64_t num_steps = std::ssize(expected);
    for (std::int64_t micro_batches = 1; micro_batches <= batch; ++micro_batches) {
      for (int data_size = 1; data_size * micro_batches <= batch; ++data_size) {
        if (batch % (data_size * micro_batches) != 0) continue;
        LoaderPlan plan{.rows_per_micro_batch = batch / data_size / micro_batches,
                        .micro_batches = micro_batches,
                        .data_size = data_size,
                        .last_step = num_steps,
                        .seed = lines[begin][1]};
        BOOST_TEST((rows_of_steps(rows, plan) == expected));
        plan.first_step = num_steps - 4;
        if (plan.first_step <= 0) continue;
        BOOST_TEST((rows_of_steps(rows, plan) == std::vector(expected.end() - 4, expected.end())));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_epoch_ends_with_the_rows_that_are_left_or_fills_its_last_step) {
  const StepPositions trl{OrderKind::trl, 10, 4};
  BOOST_TEST(trl.steps_per_epoch() == 3);
  BOOST_TEST(trl.rows_of_short_step() == 2);
  BOOST_TEST(trl.begin(2) == 8);
  BOOST_TEST(trl.begin(3) == 10);
  BOOST_TEST(trl.begin(7) == 24);
  BOOST_TEST(StepPositions({OrderKind::trl, 12, 4}).rows_of_short_step() == 0);
  BOOST_TEST(StepPositions({OrderKind::trl, 3, 8}).begin(5) == 15);  // a batch larger than the data: all of it
  const StepPositions endless{OrderKind::endless, 10, 4};
  BOOST_TEST(endless.rows_of_short_step() == 0);
  BOOST_TEST(endless.begin(7) == 28);
}

BOOST_AUTO_TEST_CASE(file_order_has_the_same_ends) {
  const Rows rows(5);
  const LoaderPlan plan{.rows_per_micro_batch = 2, .last_step = 4, .shuffle = false};
  const std::vector<std::vector<std::uint64_t>> expected{{0, 1}, {2, 3}, {4}, {0, 1}};
  BOOST_TEST((rows_of_steps(rows, plan) == expected));
}

// Positions without a gap have every row of an epoch once.
BOOST_AUTO_TEST_CASE(a_batch_that_changes_on_the_way_leaves_no_row_out_and_takes_none_twice) {
  for (const OrderKind kind : {OrderKind::trl, OrderKind::endless}) {
    for (const std::int64_t num_rows : {7, 10, 12}) {
      const Rows rows(num_rows);
      LoaderPlan plan{.order = kind};
      RowOrder order(kind, num_rows, plan.shuffle, plan.seed);
      std::int64_t num_seen = 0;
      const auto train = [&](std::int64_t num_steps, int data_size, std::int64_t batch, std::int64_t micro_batches) {
        const StepPositions positions{kind, num_rows, plan.rows_per_step(), plan.origin};
        const std::int64_t step = plan.last_step;
        BOOST_TEST(positions.begin(step) == num_seen);
        plan.origin = {.step = step, .rows = num_seen, .batch_rows_then = plan.rows_per_step()};
        plan.data_size = data_size;
        plan.rows_per_micro_batch = batch;
        plan.micro_batches = micro_batches;
        plan.first_step = step;
        plan.last_step = step + num_steps;
        for (const std::vector<std::uint64_t>& numbers : rows_of_steps(rows, plan)) {
          std::vector<std::uint64_t> expected;
          while (expected.size() < numbers.size()) expected.push_back(order.row_at(num_seen++));
          std::ranges::sort(expected);
          BOOST_TEST((numbers == expected));
          const std::int64_t begin = num_seen - std::ssize(numbers), epoch_end = (begin / num_rows + 1) * num_rows;
          const bool is_short = kind == OrderKind::trl && epoch_end - begin < plan.rows_per_step();
          BOOST_TEST(std::ssize(numbers) == (is_short ? epoch_end - begin : plan.rows_per_step()));
        }
      };
      train(2, 1, 2, 1);
      train(1, 1, 3, 1);
      train(2, 2, 2, 2);  // a step may have more rows than an epoch
      train(40, 1, 1, 3);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_origin_with_the_same_batch_changes_nothing) {
  for (const OrderKind kind : {OrderKind::trl, OrderKind::endless}) {
    const StepPositions whole{kind, 11, 4};
    for (std::int64_t step = 1; step < 9; ++step) {
      const StepPositions resumed{kind, 11, 4, {.step = step, .rows = whole.begin(step), .batch_rows_then = 4}};
      for (std::int64_t later = step; later < 20; ++later) {
        BOOST_TEST(resumed.begin(later) == whole.begin(later));
        BOOST_TEST(resumed.step_after(whole.begin(later)) == later);
        BOOST_TEST(whole.step_after(whole.begin(later) - 1) == later);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(it_takes_four_bytes_a_row) {
  BOOST_TEST(RowOrder::memory_bytes(OrderKind::trl, 1000, true) == 4000U);
  BOOST_TEST(RowOrder::memory_bytes(OrderKind::trl, RowOrder::max_rows_of_trl, true) == std::size_t{64} << 20);
  BOOST_TEST(RowOrder::memory_bytes(OrderKind::trl, 1000, false) == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
