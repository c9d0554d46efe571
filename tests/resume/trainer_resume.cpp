// Runs of the whole program: twice the same, interrupted and resumed, stopped by a signal. What they leave is equal bit
// for bit. The data have rows that leave parts of the sequence-parallel cut without a target or with padding alone.

#define BOOST_TEST_MODULE trainer_resume
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <regex>
#include <string>
#include <thread>
#include <utility>

#include "resume/trainer_program.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/config/parse.hpp"
#include "sft/core/error.hpp"
#include "support/awkward_data.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace sft;
namespace fs = std::filesystem;

struct RunCase {
  const char* name;
  config::Parallel parallel;
  config::Precision precision;

  [[nodiscard]] int num_ranks() const {
    return parallel.dp_replicate_size * parallel.dp_shard_size * parallel.sp_size * parallel.tp_size;
  }
  friend std::ostream& operator<<(std::ostream& out, const RunCase& run) { return out << run.name; }
};

const std::vector<RunCase> run_cases{
    {"one rank, float32", {.dp_shard_size = 1}, config::Precision::fp32},
    {"dp_shard 2 x sp 2, bf16", {.dp_shard_size = 2, .sp_size = 2}, config::Precision::bf16},
    {"dp_replicate 2 x tp 2, float32",
     {.dp_replicate_size = 2, .dp_shard_size = 1, .tp_size = 2},
     config::Precision::fp32},
};

/// A folder with data and configurations, gone at the end of the test.
class Workshop {
 public:
  Workshop() { test::write_packed_file(path("train.h5"), test::make_awkward_rows(31, 96, 3), test::small_vocab_size); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_.file(name); }

  /// Starts `run` with its output in path(output).
  [[nodiscard]] test::TrainerProgram start(const RunCase& run, const std::string& output, std::int64_t max_steps,
                                           const std::string& resume,
                                           const config::Model& model = test::small_qwen2()) const {
    config::Config config;
    config.model = model;
    config.data.train_files = {path("train.h5")};
    config.parallel = run.parallel;
    config.train.per_device_train_batch_size = 1;
    config.train.gradient_accumulation_steps = 2;
    config.train.max_steps = max_steps;
    config.train.precision = run.precision;
    config.train.output_dir = path(output);
    config.train.logging_steps = 1;
    config.optimizer.learning_rate = 3e-3;
    config.optimizer.lr_scheduler_type = config::Scheduler::cosine;
    config.optimizer.weight_decay = 0.1;
    config.checkpoint.save_steps = max_steps / 2;
    config.checkpoint.resume_from_checkpoint = resume;
    std::ofstream(path(output + ".ini")) << config::to_ini(config);
    return {run.num_ranks(), {path(output + ".ini")}, path(output + ".log")};
  }

  [[nodiscard]] std::string log_of(const std::string& output) const {
    std::ifstream file(path(output + ".log"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// The line "total" of the memory table: the least and the most of any rank.
  [[nodiscard]] std::pair<double, double> ledger_total_mib(const std::string& output) const {
    const std::string log = log_of(output);
    std::smatch match;
    BOOST_TEST_REQUIRE(std::regex_search(log, match, std::regex("total +([0-9.]+) MiB +([0-9.]+) MiB")), log);
    return {std::stod(match[1]), std::stod(match[2])};
  }

 private:
  test::TemporaryFolder folder_;
};

void check_done(test::TrainerProgram& program, const Workshop& workshop, const std::string& output) {
  const int status = program.wait();
  BOOST_TEST_REQUIRE(status == static_cast<int>(ExitStatus::done), workshop.log_of(output));
}

/// The same steps with the same numbers, and the same last checkpoint.
void check_equal(const Workshop& workshop, const std::string& a, const std::string& b, std::int64_t max_steps) {
  const auto steps = test::read_metrics(workshop.path(a));
  BOOST_TEST(std::ssize(steps) == max_steps);
  BOOST_TEST((steps == test::read_metrics(workshop.path(b))));
  const auto tensors = test::read_checkpoint(checkpoint::path_of(workshop.path(a), max_steps));
  BOOST_TEST(!tensors.empty());
  BOOST_TEST((tensors == test::read_checkpoint(checkpoint::path_of(workshop.path(b), max_steps))));
}

}  // namespace

BOOST_DATA_TEST_CASE(same_seed_twice_and_resumed_are_uninterrupted, boost::unit_test::data::make(run_cases), run) {
  const Workshop workshop;
  constexpr std::int64_t max_steps = 6;
  for (const std::string output : {"first", "second"}) {
    test::TrainerProgram program = workshop.start(run, output, max_steps, "none");
    check_done(program, workshop, output);
  }
  check_equal(workshop, "first", "second", max_steps);

  // As if the second had been killed after its checkpoint of half the way.
  fs::remove_all(checkpoint::path_of(workshop.path("second"), max_steps));
  test::TrainerProgram resumed = workshop.start(run, "second", max_steps, "auto");
  check_done(resumed, workshop, "second");
  check_equal(workshop, "first", "second", max_steps);
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

BOOST_AUTO_TEST_CASE(a_run_that_begins_again_earlier_leaves_a_branch_that_auto_does_not_take) {
  const Workshop workshop;
  const std::string output_dir = workshop.path("run");
  test::TrainerProgram first = workshop.start(run_cases[0], "run", 8, "none");  // saves steps 4 and 8
  check_done(first, workshop, "run");
  BOOST_TEST(workshop.log_of("run").find("warning") == std::string::npos);
  test::TrainerProgram again = workshop.start(run_cases[0], "run", 6, checkpoint::path_of(output_dir, 4));  // 3 and 6
  check_done(again, workshop, "run");
  BOOST_TEST(workshop.log_of("run").find("checkpoint-000008 will not be of this run") != std::string::npos);
  config::Config config;
  config.train.output_dir = output_dir;
  config.checkpoint.resume_from_checkpoint = "auto";
  BOOST_TEST(checkpoint::find_resume(config) == checkpoint::path_of(output_dir, 6));
}

BOOST_AUTO_TEST_CASE(rows_found_damaged_on_the_way_end_the_run_with_what_it_learned_saved) {
  const Workshop workshop;
  std::vector<data::Row> rows = test::make_awkward_rows(31, 96, 3);
  rows[30].tokens[0] = test::small_vocab_size;  // found when it is read, in the order of the seed
  test::write_packed_file(workshop.path("train.h5"), rows, test::small_vocab_size);
  test::TrainerProgram program = workshop.start(run_cases[1], "run", 8, "none");
  BOOST_TEST(program.wait() == static_cast<int>(ExitStatus::data), workshop.log_of("run"));
  const auto steps_done = std::ssize(test::read_metrics(workshop.path("run")));
  BOOST_TEST(steps_done > 0);
  BOOST_TEST(fs::exists(checkpoint::path_of(workshop.path("run"), steps_done)));
}

// Sanitizers keep shadow memory of their own.
#ifndef __SANITIZE_ADDRESS__
BOOST_DATA_TEST_CASE(resident_memory_is_within_a_tenth_of_the_ledger, boost::unit_test::data::make(run_cases), run) {
  const Workshop workshop;
  config::Model model = test::small_qwen2();
  model.hidden_size = 192;  // large enough to use all scratch memory, as any model worth training
  model.intermediate_size = 768;
  model.num_hidden_layers = 4;
  for (const std::int64_t max_steps : {4, 8}) {  // the second run reads a checkpoint and writes two
    test::TrainerProgram program = workshop.start(run, "run", max_steps, "auto", model);
    check_done(program, workshop, "run");
    const auto [least_mib, most_mib] = workshop.ledger_total_mib("run");
    const test::PeakBytes peak = test::read_peak_bytes(workshop.path("run"));
    constexpr double mib = 1 << 20;
    BOOST_TEST(peak.least / mib >= 0.9 * least_mib);
    BOOST_TEST(peak.most / mib <= 1.1 * most_mib);
  }
}
#endif
