// SPDX-License-Identifier: Apache-2.0
// Runs of the whole program: twice the same, interrupted and resumed, stopped by a signal. What they leave is equal bit
// for bit. The data have rows that leave parts of the sequence-parallel cut without a target or with padding alone.

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/config/parse.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "support/awkward_data.hpp"
#include "support/packed_file.hpp"
#include "trainer/program.hpp"
#include "trainer/workshop.hpp"

namespace {

using namespace sft;
using test::check_done;
using test::check_equal;
using test::everyday_cases;
using test::other_cases;
using test::run_cases;
using test::RunCase;
using test::Workshop;
namespace fs = std::filesystem;

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void check_same_seed_twice_and_resumed(const RunCase& run, const std::function<void(config::Config&)>& change = {}) {
  const Workshop workshop;
  constexpr std::int64_t max_steps = 6;
  for (const std::string output : {"first", "second"}) {
    test::TrainerProgram program = workshop.start(run, output, max_steps, "none", change);
    check_done(program, workshop, output);
  }
  check_equal(workshop, "first", "second", max_steps);

  // As if the second had been killed after its checkpoint of half the way.
  fs::remove_all(checkpoint::path_of(workshop.path("second"), max_steps));
  test::TrainerProgram resumed = workshop.start(run, "second", max_steps, "auto", change);
  check_done(resumed, workshop, "second");
  check_equal(workshop, "first", "second", max_steps);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(resume)

BOOST_DATA_TEST_CASE(same_seed_twice_and_resumed_are_uninterrupted, everyday_cases(), run) {
  check_same_seed_twice_and_resumed(run);
}

BOOST_AUTO_TEST_CASE(products_in_fp8_are_the_same_again) {
  for (const config::Fp8 fp8 : {config::Fp8::tensorwise, config::Fp8::blockwise}) {
    check_same_seed_twice_and_resumed(run_cases[1], [=](config::Config& config) { config.train.fp8 = fp8; });
  }
}

// 31 rows, 4 a step: epochs that end with a step of 3 rows, and epochs that fill it up.
BOOST_AUTO_TEST_CASE(a_run_keeps_the_order_of_rows_that_it_began_with) {
  const Workshop workshop;
  constexpr std::int64_t max_steps = 20;
  const auto start = [&](const std::string& output, const std::string& resume, config::RowOrder order) {
    return workshop.start(run_cases[1], output, max_steps, resume,
                          [&](config::Config& config) { config.data.row_order = order; });
  };
  using Order = config::RowOrder;
  for (const auto& [order, other] : {std::pair(Order::trl, Order::endless), std::pair(Order::endless, Order::trl)}) {
    const std::string whole = "whole-" + config::write(order), parts = "parts-" + config::write(order);
    test::TrainerProgram uninterrupted = start(whole, "none", order);
    check_done(uninterrupted, workshop, whole);
    test::TrainerProgram first = start(parts, "none", order);
    check_done(first, workshop, parts);
    fs::remove_all(checkpoint::path_of(workshop.path(parts), max_steps));
    test::TrainerProgram refused = start(parts, "auto", other);
    BOOST_TEST(refused.wait() == static_cast<int>(ExitStatus::configuration));
    BOOST_TEST(workshop.log_of(parts).find("set data.row_order = " + config::write(order)) != std::string::npos,
               workshop.log_of(parts));
    test::TrainerProgram resumed = start(parts, "auto", Order::automatic);
    check_done(resumed, workshop, parts);
    check_equal(workshop, whole, parts, max_steps);
  }
  const auto trl = test::read_metrics(workshop.path("whole-trl")),
             endless = test::read_metrics(workshop.path("whole-endless"));
  BOOST_TEST(trl.at(8).epoch == 1.0);
  BOOST_TEST(trl.at(16).epoch == 2.0);
  BOOST_TEST(endless.at(8).epoch == 32.0 / 31.0);
  BOOST_TEST(trl.at(1).loss != endless.at(1).loss);
}

// With float32 state from memory to files, with bf16 state from files to memory.
BOOST_AUTO_TEST_CASE(where_state_lies_may_change_at_a_resume) {
  const Workshop workshop;
  constexpr std::int64_t max_steps = 4;
  for (const bool is_bf16 : {false, true}) {
    const auto start = [&](const std::string& output, bool has_files, const std::string& resume) {
      return workshop.start(run_cases[1], output, max_steps, resume, [&](config::Config& config) {
        if (is_bf16) {
          config.train.precision = config::Precision::pure_bf16;
          config.optimizer.moments_dtype = DType::bf16;
        }
        if (!has_files) return;
        config.train.offload_optimizer = config::Offload::nvme;
        config.train.offload_parameters = is_bf16 ? config::Offload::none : config::Offload::nvme;
        config.train.offload_folder = workshop.path("offload");
      });
    };
    const std::string whole = is_bf16 ? "whole-bf16" : "whole", parts = is_bf16 ? "parts-bf16" : "parts";
    test::TrainerProgram uninterrupted = start(whole, false, "none");
    check_done(uninterrupted, workshop, whole);
    test::TrainerProgram first = start(parts, is_bf16, "none");
    check_done(first, workshop, parts);
    fs::remove_all(checkpoint::path_of(workshop.path(parts), max_steps));
    test::TrainerProgram second = start(parts, !is_bf16, "auto");
    check_done(second, workshop, parts);
    check_equal(workshop, whole, parts, max_steps);
    BOOST_TEST((workshop.log_of(parts).find("in files in") != std::string::npos) == !is_bf16);
  }
  BOOST_TEST(fs::is_empty(workshop.path("offload")));
}

BOOST_AUTO_TEST_CASE(every_optimizer_resumes_to_the_bit_and_none_as_another) {
  const Workshop workshop;
  constexpr std::int64_t max_steps = 4;
  const auto start = [&](const std::string& output, const std::string& resume, config::OptimizerKind optim) {
    return workshop.start(run_cases[1], output, max_steps, resume, [&](config::Config& config) {
      config.optimizer.optim = optim;
      config.model.intermediate_size = 192;  // matrices of 30 blocks
    });
  };
  for (const config::OptimizerKind optim :
       {config::OptimizerKind::adamw_8bit, config::OptimizerKind::adafactor, config::OptimizerKind::lion,
        config::OptimizerKind::muon, config::OptimizerKind::sgd}) {
    const std::string whole = "whole-" + config::write(optim), parts = "parts-" + config::write(optim);
    test::TrainerProgram uninterrupted = start(whole, "none", optim);
    check_done(uninterrupted, workshop, whole);
    test::TrainerProgram first = start(parts, "none", optim);
    check_done(first, workshop, parts);
    fs::remove_all(checkpoint::path_of(workshop.path(parts), max_steps));
    test::TrainerProgram refused = start(parts, "auto", config::OptimizerKind::adamw_torch);
    BOOST_TEST(refused.wait() == static_cast<int>(ExitStatus::configuration));
    BOOST_TEST(workshop.log_of(parts).find("set optimizer.optim = " + config::write(optim)) != std::string::npos,
               workshop.log_of(parts));
    test::TrainerProgram resumed = start(parts, "auto", optim);
    check_done(resumed, workshop, parts);
    check_equal(workshop, whole, parts, max_steps);
  }
}

BOOST_AUTO_TEST_CASE(a_signal_saves_and_stops_and_the_next_run_goes_on) {
  const Workshop workshop;
  const RunCase& run = run_cases[1];
  constexpr std::int64_t max_steps = 200;  // long enough for the signal to come in the middle
  test::TrainerProgram uninterrupted = workshop.start(run, "whole", max_steps, "none");
  check_done(uninterrupted, workshop, "whole");

  test::TrainerProgram stopped = workshop.start(run, "stopped", max_steps, "auto");
  while (stopped.is_running() && test::read_metrics(workshop.path("stopped")).size() < 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  stopped.send(SIGUSR1);
  BOOST_TEST(stopped.wait() == static_cast<int>(ExitStatus::stopped), workshop.log_of("stopped"));
  const auto steps_done = std::ssize(test::read_metrics(workshop.path("stopped")));
  BOOST_TEST(steps_done < max_steps);
  BOOST_TEST(fs::exists(checkpoint::path_of(workshop.path("stopped"), steps_done)));

  test::TrainerProgram resumed = workshop.start(run, "stopped", max_steps, "auto");
  check_done(resumed, workshop, "stopped");
  check_equal(workshop, "whole", "stopped", max_steps);
}

BOOST_AUTO_TEST_CASE(a_signal_is_answered_within_a_micro_batch_and_the_step_is_forgotten) {
  const Workshop workshop;
  const RunCase& run = run_cases[1];
  const auto accumulate = [](std::int64_t micro_batches) {
    return [=](config::Config& config) {
      config.train.gradient_accumulation_steps = micro_batches;
      config.checkpoint.save_steps = 0;
    };
  };
  // A first step that would take minutes.
  test::TrainerProgram endless = workshop.start(run, "endless", 2, "none", accumulate(20000));
  while (endless.is_running() && workshop.log_of("endless").find("first forward pass") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // signals count from the first step on
  endless.send(SIGUSR1);
  BOOST_TEST(endless.wait() == static_cast<int>(ExitStatus::stopped), workshop.log_of("endless"));
  BOOST_TEST(test::read_metrics(workshop.path("endless")).empty());
  BOOST_TEST(fs::exists(checkpoint::path_of(workshop.path("endless"), 0)));

  constexpr std::int64_t max_steps = 3, micro_batches = 100;
  test::TrainerProgram uninterrupted = workshop.start(run, "whole", max_steps, "none", accumulate(micro_batches));
  check_done(uninterrupted, workshop, "whole");
  test::TrainerProgram stopped = workshop.start(run, "stopped", max_steps, "auto", accumulate(micro_batches));
  while (stopped.is_running() && test::read_metrics(workshop.path("stopped")).empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  stopped.send(SIGUSR1);
  BOOST_TEST(stopped.wait() == static_cast<int>(ExitStatus::stopped), workshop.log_of("stopped"));
  const auto steps_done = std::ssize(test::read_metrics(workshop.path("stopped")));
  BOOST_TEST(steps_done < max_steps);
  BOOST_TEST(fs::exists(checkpoint::path_of(workshop.path("stopped"), steps_done)));
  test::TrainerProgram resumed = workshop.start(run, "stopped", max_steps, "auto", accumulate(micro_batches));
  check_done(resumed, workshop, "stopped");
  check_equal(workshop, "whole", "stopped", max_steps);
}

BOOST_AUTO_TEST_CASE(a_run_that_begins_again_earlier_leaves_a_branch_that_auto_does_not_take) {
  const Workshop workshop;
  const std::string output_dir = workshop.path("run");
  test::TrainerProgram first = workshop.start(run_cases[0], "run", 8, "none");  // saves steps 4 and 8
  check_done(first, workshop, "run");
  BOOST_TEST(workshop.log_of("run").find("warning") == std::string::npos);
  test::TrainerProgram again = workshop.start(run_cases[0], "run", 6, checkpoint::path_of(output_dir, 4));  // 3 and 6
  check_done(again, workshop, "run");
  BOOST_TEST(workshop.log_of("run").find("checkpoint-000008 is not of this run, which goes on from step 4") !=
             std::string::npos);
  BOOST_TEST(std::ssize(lines_of(output_dir + "/metrics.jsonl.old")) ==
             8);  // with the steps of the branch that was left
  config::Config config;
  config.train.output_dir = output_dir;
  config.checkpoint.resume_from_checkpoint = "auto";
  BOOST_TEST(checkpoint::find_resume(config) == checkpoint::path_of(output_dir, 6));
}

BOOST_AUTO_TEST_CASE(a_new_start_in_an_old_folder_leaves_the_old_runs_checkpoints) {
  const Workshop workshop;
  const std::string output_dir = workshop.path("run");
  test::TrainerProgram old = workshop.start(run_cases[0], "run", 8, "none");  // saves steps 4 and 8
  check_done(old, workshop, "run");
  const auto keep_one = [](config::Config& config) {
    config.checkpoint.save_steps = 1;
    config.checkpoint.save_total_limit = 1;
  };
  test::TrainerProgram anew = workshop.start(run_cases[0], "run", 6, "none", keep_one);
  check_done(anew, workshop, "run");
  const std::string log = workshop.log_of("run");
  BOOST_TEST(log.find("checkpoint-000008 and 1 more are not of this run, which starts anew") != std::string::npos, log);
  // Step 4 of the old run gave way to step 4 of the new one, which save_total_limit then removed.
  const std::vector<std::string> left = {checkpoint::path_of(output_dir, 6), checkpoint::path_of(output_dir, 8)};
  BOOST_TEST(checkpoint::list(output_dir) == left);
  BOOST_TEST(std::ssize(lines_of(output_dir + "/metrics.jsonl.old")) == 8);
}

BOOST_AUTO_TEST_CASE(a_run_that_goes_on_from_another_folder_leaves_the_metrics_it_finds) {
  const Workshop workshop;
  for (const char* output : {"source", "target"}) {
    test::TrainerProgram program = workshop.start(run_cases[0], output, 4, "none");
    check_done(program, workshop, output);
  }
  const std::vector<std::string> found = lines_of(workshop.path("target/metrics.jsonl"));
  test::TrainerProgram resumed =
      workshop.start(run_cases[0], "target", 6, checkpoint::path_of(workshop.path("source"), 2));
  check_done(resumed, workshop, "target");
  BOOST_TEST(lines_of(workshop.path("target/metrics.jsonl.old")) == found);
  const auto steps = test::read_metrics(workshop.path("target"));
  BOOST_TEST(steps.begin()->first == 3);
  BOOST_TEST(std::ssize(steps) == 4);
  // The running sums go on from those of the source.
  const auto source = test::read_metrics(workshop.path("source"));
  BOOST_TEST(steps.at(3).num_tokens == source.at(3).num_tokens);
  // Once it has saved, it goes on in its own file.
  test::TrainerProgram again = workshop.start(run_cases[0], "target", 8, "auto");
  check_done(again, workshop, "target");
  BOOST_TEST(std::ssize(test::read_metrics(workshop.path("target"))) == 6);
  BOOST_TEST(!fs::exists(workshop.path("target/metrics.jsonl.old.1")));
}

BOOST_AUTO_TEST_CASE(a_line_has_the_means_since_the_last_one_also_across_a_restart) {
  const Workshop workshop;
  const auto log_rarely = [](config::Config& config) {
    config.train.logging_steps = 4;
    config.checkpoint.save_steps = 6;
  };
  test::TrainerProgram each = workshop.start(run_cases[0], "each", 10, "none");
  check_done(each, workshop, "each");
  test::TrainerProgram whole = workshop.start(run_cases[0], "whole", 10, "none", log_rarely);
  check_done(whole, workshop, "whole");
  const auto steps = test::read_metrics(workshop.path("each"));
  const auto windows = test::read_metrics(workshop.path("whole"));
  BOOST_TEST_REQUIRE(windows.size() == 3U);  // 4, 8 and the last step
  double loss = 0.0, accuracy = 0.0, entropy = 0.0, num_tokens = 0.0;
  for (std::int64_t step = 1, first = 1; step <= 10; ++step) {
    const test::LoggedStep& one = steps.at(step);
    BOOST_TEST(one.loss == one.step_loss);
    loss += one.step_loss, accuracy += one.mean_token_accuracy, entropy += one.entropy;
    num_tokens += one.step_num_tokens;
    BOOST_TEST(one.num_tokens == num_tokens);
    if (!windows.contains(step)) continue;
    const test::LoggedStep& window = windows.at(step);
    const auto count = static_cast<double>(step - first + 1);
    BOOST_TEST(window.loss == loss / count);
    BOOST_TEST(window.mean_token_accuracy == accuracy / count);
    BOOST_TEST(window.entropy == entropy / count);
    BOOST_TEST(window.step_loss == one.step_loss);
    BOOST_TEST(window.num_tokens == num_tokens);
    loss = accuracy = entropy = 0.0;
    first = step + 1;
  }
  // As if it had been killed after step 6, between two lines.
  fs::remove_all(checkpoint::path_of(workshop.path("whole"), 10));
  test::TrainerProgram resumed = workshop.start(run_cases[0], "whole", 10, "auto", log_rarely);
  check_done(resumed, workshop, "whole");
  BOOST_TEST((windows == test::read_metrics(workshop.path("whole"))));
}

BOOST_AUTO_TEST_CASE(other_data_of_the_same_shape_is_refused) {
  const Workshop workshop;
  test::TrainerProgram first = workshop.start(run_cases[0], "run", 4, "none");
  check_done(first, workshop, "run");
  test::write_packed_file(workshop.path("train.h5"), test::make_awkward_rows(31, 96, 4), test::small_vocab_size);
  test::TrainerProgram resumed = workshop.start(run_cases[0], "run", 6, "auto");
  BOOST_TEST(resumed.wait() == static_cast<int>(ExitStatus::configuration));
  BOOST_TEST(workshop.log_of("run").find("content or order of data.train_files") != std::string::npos,
             workshop.log_of("run"));
}

BOOST_DATA_TEST_CASE(rows_found_damaged_on_the_way_end_the_run_with_what_it_learned_saved, everyday_cases(), run) {
  const Workshop workshop;
  std::vector<rows::Row> rows = test::make_awkward_rows(31, 96, 3);
  rows[30].tokens[0] = test::small_vocab_size;  // found when it is read, in the order of the seed
  test::write_packed_file(workshop.path("train.h5"), rows, test::small_vocab_size);
  test::TrainerProgram program = workshop.start(run, "run", 31, "none");
  BOOST_TEST(program.wait() == static_cast<int>(ExitStatus::data), workshop.log_of("run"));
  const auto steps_done = std::ssize(test::read_metrics(workshop.path("run")));
  BOOST_TEST(steps_done > 0);
  BOOST_TEST(fs::exists(checkpoint::path_of(workshop.path("run"), steps_done)));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(resume_on_other_meshes)

BOOST_DATA_TEST_CASE(same_seed_twice_and_resumed_are_uninterrupted, other_cases(), run) {
  check_same_seed_twice_and_resumed(run);
}

BOOST_AUTO_TEST_SUITE_END()
