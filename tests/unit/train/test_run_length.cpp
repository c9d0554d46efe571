// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <vector>

#include "sft/train/run_length.hpp"

using namespace sft;

namespace {

struct Case {
  std::int64_t max_steps;
  double num_train_epochs;
  std::int64_t num_rows, batch_rows;
  std::int64_t steps;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.max_steps << " max_steps, " << c.num_train_epochs << " epochs of " << c.num_rows << " rows, batch "
             << c.batch_rows;
}

const std::vector<Case> cases{
    {7, 3.0, 100, 10, 7},                            // max_steps wins
    {0, 3.0, 100, 10, 0},                            // only writes checkpoint-000000
    {-1, 3.0, 100, 10, 30},                          // whole batches
    {-1, 1.0, 101, 10, 11},                          // rounded up
    {-1, 0.1, 30, 3, 1},                             // no step for a rounding error
    {-1, 0.5, 101, 10, 6},  {-1, 1e-6, 100, 10, 1},  // at least one
    {-1, 1.0, 3, 64, 1},                             // a batch may be longer than the data
};

}  // namespace

BOOST_AUTO_TEST_CASE(steps_of_a_run) {
  for (const Case& c : cases) {
    config::Config config;
    config.train.max_steps = c.max_steps;
    config.train.num_train_epochs = c.num_train_epochs;
    config.train.per_device_train_batch_size = c.batch_rows;
    config.parallel.dp_shard_size = 1;
    BOOST_TEST(train::num_steps(config, c.num_rows) == c.steps, c << " gave " << train::num_steps(config, c.num_rows));
  }
}

BOOST_AUTO_TEST_CASE(epochs_count_rows) {
  BOOST_TEST(train::epochs_after(0, 8, 100) == 0.0);
  BOOST_TEST(train::epochs_after(25, 8, 100) == 2.0);
}

BOOST_AUTO_TEST_CASE(intervals) {
  BOOST_TEST(train::is_due(10, 5));
  BOOST_TEST(!train::is_due(11, 5));
  BOOST_TEST(!train::is_due(11, 0));
}
