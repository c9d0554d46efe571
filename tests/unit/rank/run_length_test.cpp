// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/rank/run_length.hpp"

using namespace sft;

namespace {

using Order = config::RowOrder;

struct Case {
  Order order;
  std::int64_t max_steps;
  double num_train_epochs;
  std::int64_t num_rows, batch_rows;
  std::int64_t steps;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << (c.order == Order::trl ? "trl, " : "endless, ") << c.max_steps << " max_steps, " << c.num_train_epochs
             << " epochs of " << c.num_rows << " rows, batch " << c.batch_rows;
}

const std::vector<Case> cases{
    {Order::endless, 7, 3.0, 100, 10, 7},    // max_steps wins
    {Order::endless, 0, 3.0, 100, 10, 0},    // only writes checkpoint-000000
    {Order::endless, -1, 3.0, 100, 10, 30},  // whole batches
    {Order::endless, -1, 1.0, 101, 10, 11},  // rounded up
    {Order::endless, -1, 0.1, 30, 3, 1},     // no step for a rounding error
    {Order::endless, -1, 0.5, 101, 10, 6},
    {Order::endless, -1, 1e-6, 100, 10, 1},  // at least one
    {Order::endless, -1, 1.0, 3, 64, 1},
    {Order::endless, -1, 3.0, 101, 10, 31},  // a batch may be longer than the data
    {Order::trl, 7, 3.0, 101, 10, 7},
    {Order::trl, -1, 3.0, 101, 10, 33},  // each epoch ends with a step
    {Order::trl, -1, 0.5, 10, 4, 2},
    {Order::trl, -1, 1.5, 10, 4, 5},  // as transformers counts them
    {Order::trl, -1, 3.0, 3, 64, 3},
    {Order::trl, -1, 0.1, 30, 3, 1},
};

}  // namespace

BOOST_AUTO_TEST_CASE(steps_of_a_run) {
  for (const Case& c : cases) {
    config::Config config;
    config.data.row_order = c.order;
    config.train.max_steps = c.max_steps;
    config.train.num_train_epochs = c.num_train_epochs;
    config.train.per_device_train_batch_size = c.batch_rows;
    config.parallel.dp_shard_size = 1;
    BOOST_TEST(rank::num_steps(config, c.num_rows) == c.steps, c << " gave " << rank::num_steps(config, c.num_rows));
  }
}

BOOST_AUTO_TEST_CASE(a_run_with_another_batch_has_as_many_steps_as_its_rows_take) {
  struct OriginCase {
    Order order;
    double num_train_epochs;
    std::int64_t batch_rows, step, rows, steps;
  };
  const std::vector<OriginCase> origin_cases{
      {Order::trl, 3.0, 20, 15, 141, 15 + 4 + 6},  // 61 rows of the second epoch, 101 of the third
      {Order::trl, 3.0, 20, 11, 101, 23},          // at the end of an epoch
      {Order::trl, 1.5, 20, 15, 141, 16},          // 11 rows
      {Order::trl, 1.0, 20, 15, 141, 15},          // all are there
      {Order::endless, 3.0, 20, 15, 150, 15 + 8}, {Order::endless, 3.0, 1, 30, 300, 33},
  };
  for (const OriginCase& c : origin_cases) {
    config::Config config;
    config.data.row_order = c.order;
    config.train.max_steps = -1;
    config.train.num_train_epochs = c.num_train_epochs;
    config.train.per_device_train_batch_size = c.batch_rows;
    config.parallel.dp_shard_size = 1;
    checkpoint::Position position{.step = c.step, .rows_consumed = c.rows, .num_rows = 101};
    const rows::StepOrigin origin = rank::origin_at(config, position, 10);
    BOOST_TEST(rank::num_steps(config, 101, origin) == c.steps,
               c.step << " steps of " << c.batch_rows << " gave " << rank::num_steps(config, 101, origin));
    config.train.max_steps = 40;
    BOOST_TEST(rank::num_steps(config, 101, origin) == 40);
    config.train.per_device_train_batch_size = 10;  // as it was: nothing has changed
    BOOST_TEST((rank::origin_at(config, position, 10) == rows::StepOrigin{}));
  }
}

BOOST_AUTO_TEST_CASE(a_step_before_a_change_of_the_batch_may_have_ended_an_epoch) {
  using Kind = rows::OrderKind;
  BOOST_TEST(rank::is_epoch_end(11, {Kind::trl, 101, 20, {.step = 11, .rows = 101, .batch_rows_then = 10}}));
  BOOST_TEST(!rank::is_epoch_end(15, {Kind::trl, 101, 20, {.step = 15, .rows = 141, .batch_rows_then = 10}}));
  BOOST_TEST(rank::is_epoch_end(18, {Kind::trl, 101, 20, {.step = 15, .rows = 151, .batch_rows_then = 10}}));
  BOOST_TEST(rank::is_epoch_end(11, {Kind::endless, 101, 20, {.step = 11, .rows = 110, .batch_rows_then = 10}}));
  BOOST_TEST(!rank::is_epoch_end(12, {Kind::endless, 101, 20, {.step = 12, .rows = 120, .batch_rows_then = 10}}));
}

BOOST_AUTO_TEST_CASE(epochs_count_rows) {
  BOOST_TEST(rank::epochs_after(0, {rows::OrderKind::endless, 100, 8}) == 0.0);
  BOOST_TEST(rank::epochs_after(25, {rows::OrderKind::endless, 100, 8}) == 2.0);
  BOOST_TEST(rank::epochs_after(26, {rows::OrderKind::trl, 100, 8}) == 2.0);
  BOOST_TEST(rank::epochs_after(12, {rows::OrderKind::trl, 100, 8}) == 0.96);
}

BOOST_AUTO_TEST_CASE(rows_are_shuffled_as_in_trl_unless_there_are_too_many) {
  using Kind = rows::OrderKind;
  constexpr std::int64_t few = rows::RowOrder::max_rows_of_trl, most = rows::RowOrder::most_rows_of_trl;
  config::Data data;
  BOOST_TEST((rank::row_order(data, few) == Kind::trl));
  BOOST_TEST((rank::row_order(data, few + 1) == Kind::endless));
  data.row_order = Order::endless;
  BOOST_TEST((rank::row_order(data, 10) == Kind::endless));
  data.row_order = Order::trl;
  BOOST_TEST((rank::row_order(data, most) == Kind::trl));
  BOOST_CHECK_EXCEPTION((void)rank::row_order(data, most + 1), Error, [](const Error& error) {
    return error.status() == ExitStatus::configuration &&
           std::string(error.what()).find("set data.row_order = endless") != std::string::npos;
  });
  data.shuffle = false;  // file order takes no memory
  BOOST_TEST((rank::row_order(data, most + 1) == Kind::trl));
  data.row_order = Order::automatic;  // step s has rows [s B, (s + 1) B)
  BOOST_TEST((rank::row_order(data, 10) == Kind::endless));
}

BOOST_AUTO_TEST_CASE(intervals) {
  BOOST_TEST(rank::is_due(10, 5));
  BOOST_TEST(!rank::is_due(11, 5));
  BOOST_TEST(!rank::is_due(11, 0));
}

BOOST_AUTO_TEST_CASE(an_epoch_ends_with_the_step_that_reads_its_last_row) {
  using Steps = std::vector<std::int64_t>;
  const auto ends = [](const rows::StepPositions& positions) {
    Steps steps;
    for (std::int64_t step = 0; step <= 30; ++step) {
      if (rank::is_epoch_end(step, positions)) steps.push_back(step);
    }
    return steps;
  };
  BOOST_TEST(ends({rows::OrderKind::trl, 100, 8}) == (Steps{13, 26}));
  BOOST_TEST(ends({rows::OrderKind::endless, 100, 8}) == (Steps{13, 25}));
  BOOST_TEST(ends({rows::OrderKind::endless, 3, 8}).size() == 30U);  // each reads several
}
