// SPDX-License-Identifier: Apache-2.0
// Runs that go on with another effective batch: by more rows, more accumulation, or another number of data ranks. The
// rows that are left of the epoch come next, each once.

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "support/damage.hpp"
#include "support/shard_path.hpp"
#include "trainer/program.hpp"
#include "trainer/workshop.hpp"

namespace {

using namespace sft;
using test::run_cases;
using test::Workshop;
namespace fs = std::filesystem;

/// A part of a run: up to `max_steps` (-1: the epochs that the configuration has), with that batch.
struct Part {
  std::size_t run = 0;  ///< which of run_cases
  std::int64_t micro_batch_rows = 1, micro_batches = 1, max_steps = -1;
};

void train(const Workshop& workshop, const std::string& output, const Part& part, config::RowOrder order,
           const std::string& resume = "auto") {
  test::TrainerProgram program =
      workshop.start(run_cases[part.run], output, part.max_steps, resume, [&](config::Config& config) {
        config.data.row_order = order;
        config.train.per_device_train_batch_size = part.micro_batch_rows;
        config.train.gradient_accumulation_steps = part.micro_batches;
        config.train.num_train_epochs = 2;
        config.train.precision = config::Precision::fp32;
        config.optimizer.lr_scheduler_type = config::Scheduler::constant;
        config.checkpoint.save_strategy = config::SaveStrategy::epoch;
        config.checkpoint.save_steps = 0;
      });
  test::check_done(program, workshop, output);
}

/// The lines of the memory table but for the last two, which are measured.
std::string planned_memory(const std::string& log) {
  const std::size_t begin = log.find("memory per rank"), end = log.find("  process  ", begin);
  BOOST_TEST_REQUIRE(end != std::string::npos, log);
  return log.substr(begin, end - begin);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(batch_change)

// 31 rows: 4 steps of 2, 2 of 6, then 4 a step on two data ranks to the end of the second epoch.
BOOST_AUTO_TEST_CASE(every_row_of_an_epoch_is_trained_on_once_after_two_changes_in_a_row) {
  for (const config::RowOrder order : {config::RowOrder::trl, config::RowOrder::endless}) {
    const Workshop workshop;
    const rows::PackedDataset dataset({workshop.path("train.h5")});
    train(workshop, "run", {.run = 0, .micro_batch_rows = 2, .max_steps = 4}, order, "none");
    train(workshop, "run", {.run = 0, .micro_batch_rows = 3, .micro_batches = 2, .max_steps = 6}, order);
    const std::string log = workshop.log_of("run");
    BOOST_TEST(log.find("the effective batch is 6 rows from here on; it was 2") != std::string::npos, log);
    BOOST_TEST(log.find("step 5 begins with row 9 of epoch 1") != std::string::npos, log);
    train(workshop, "run", {.run = 1, .micro_batches = 2}, order);

    const bool is_trl = order == config::RowOrder::trl;
    const std::int64_t last = is_trl ? 6 + 3 + 8 : 6 + 11;  // 11 of 31 rows are left; then 31, or 42 in one
    const auto steps = test::read_metrics(workshop.path("run"));
    BOOST_TEST_REQUIRE(std::ssize(steps) == last);
    if (is_trl) {
      BOOST_TEST(steps.at(9).epoch == 1.0);
      BOOST_TEST(steps.at(9).num_tokens == dataset.num_tokens());
      BOOST_TEST(steps.at(last).epoch == 2.0);
      BOOST_TEST(steps.at(last).num_tokens == 2 * dataset.num_tokens());
      BOOST_TEST(fs::exists(checkpoint::path_of(workshop.path("run"), 9)));  // the end of an epoch
    } else {
      BOOST_TEST(steps.at(last).epoch == (20.0 + 4 * 11) / 31);
    }
    const checkpoint::Position position =
        checkpoint::read_header(checkpoint::path_of(workshop.path("run"), last)).position;
    BOOST_TEST_REQUIRE(position.writers.size() == 3U);
    BOOST_TEST(position.writers[0].batch_rows == 2);
    BOOST_TEST(position.writers[1].batch_rows == 6);
    BOOST_TEST(position.writers[1].step == 4);
    BOOST_TEST(position.writers[2].batch_rows == 4);
    BOOST_TEST(position.writers[2].step == 6);
    BOOST_TEST(position.rows_consumed == (is_trl ? 62 : 64));
  }
}

// Behind a change a run is resumed as any other, to the bit.
BOOST_AUTO_TEST_CASE(a_run_with_a_changed_batch_resumes_to_the_bit) {
  const Workshop workshop;
  const config::RowOrder order = config::RowOrder::trl;
  train(workshop, "whole", {.run = 1, .micro_batch_rows = 1, .max_steps = 5}, order, "none");
  fs::copy(workshop.path("whole"), workshop.path("parts"), fs::copy_options::recursive);
  const Part changed{.run = 1, .micro_batch_rows = 3, .max_steps = 10};
  train(workshop, "whole", changed, order);
  train(workshop, "parts", {.run = 1, .micro_batch_rows = 3, .max_steps = 7}, order);
  train(workshop, "parts", changed, order);
  BOOST_TEST(workshop.log_of("parts").find("the effective batch is") == std::string::npos);
  test::check_equal(workshop, "whole", "parts", 10);
}

// The checkpoint before the newest, which turns out damaged when its numbers are read, had another batch: memory is
// laid out anew for the steps behind it.
BOOST_AUTO_TEST_CASE(auto_falls_back_to_a_checkpoint_of_another_batch) {
  const Workshop workshop;
  const config::RowOrder order = config::RowOrder::trl;
  const Part before{.run = 1, .micro_batch_rows = 1, .max_steps = 4}, after{.run = 1, .micro_batch_rows = 3};
  train(workshop, "whole", before, order, "none");
  fs::copy(workshop.path("whole"), workshop.path("damaged"), fs::copy_options::recursive);
  train(workshop, "damaged", {.run = 1, .micro_batch_rows = 3, .max_steps = 2}, order, "none");
  const std::string newest = checkpoint::path_of(workshop.path("damaged"), 2);
  const std::string shard = test::shard_path(newest, 0);
  test::flip_bit(shard, fs::file_size(shard) / 2);

  train(workshop, "whole", after, order);
  train(workshop, "damaged", after, order);
  const std::string log = workshop.log_of("damaged");
  BOOST_TEST(log.find(newest + " is left out") != std::string::npos, log);
  BOOST_TEST(log.find("the effective batch is 6 rows from here on; it was 2") != std::string::npos, log);
  BOOST_TEST(log.find("the run is planned anew") != std::string::npos, log);
  BOOST_TEST(workshop.log_of("whole").find("the run is planned anew") == std::string::npos);
  auto steps = test::read_metrics(workshop.path("whole"));
  const std::int64_t last = std::ssize(steps);
  for (std::int64_t step = 1; step <= before.max_steps; ++step) steps.erase(step);  // the other run's are set aside
  BOOST_TEST((steps == test::read_metrics(workshop.path("damaged"))));
  const auto tensors = test::read_checkpoint(checkpoint::path_of(workshop.path("whole"), last));
  BOOST_TEST((tensors == test::read_checkpoint(checkpoint::path_of(workshop.path("damaged"), last))));
  BOOST_TEST(planned_memory(workshop.log_of("whole")) == planned_memory(log));
}

BOOST_AUTO_TEST_SUITE_END()
