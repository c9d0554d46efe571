// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs of the whole program in a folder of their own, and what must be equal of what they leave.

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <ostream>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/config/parse.hpp"
#include "sft/core/error.hpp"
#include "support/awkward_data.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"
#include "trainer/program.hpp"

namespace sft::test {

struct RunCase {
  const char* name;
  config::Parallel parallel;
  config::Precision precision;
  config::ActivationCheckpointing checkpointing = config::ActivationCheckpointing::none;

  [[nodiscard]] int num_ranks() const {
    return parallel.dp_replicate_size * parallel.dp_shard_size * parallel.ep_size * parallel.sp_size * parallel.tp_size;
  }
  friend std::ostream& operator<<(std::ostream& out, const RunCase& run) { return out << run.name; }
};

/// The first of them are for every day, see num_everyday_cases.
inline const std::vector<RunCase> run_cases{
    {"one rank, float32", {.dp_shard_size = 1}, config::Precision::fp32},
    {"dp_shard 2 x sp 2, bf16", {.dp_shard_size = 2, .sp_size = 2}, config::Precision::bf16},
    {"dp_replicate 2 x tp 2 with whole tokens, float32",
     {.dp_replicate_size = 2, .dp_shard_size = 1, .tp_size = 2, .tp_sequence_parallel = false},
     config::Precision::fp32},
    {"sp 2 by all_gather, stage 0, selective, bf16",
     {.dp_shard_size = 1, .sp_size = 2, .zero_stage = 0, .sp_method = config::SpMethod::all_gather},
     config::Precision::bf16,
     config::ActivationCheckpointing::selective},
    {"sp 2 by ulysses, stage 1, full, float32",
     {.dp_shard_size = 1, .sp_size = 2, .zero_stage = 1, .sp_method = config::SpMethod::ulysses},
     config::Precision::fp32,
     config::ActivationCheckpointing::full},
    {"sp 4 by hybrid, full, bf16",
     {.dp_shard_size = 1, .sp_size = 4, .sp_method = config::SpMethod::hybrid, .ulysses_size = 2},
     config::Precision::bf16,
     config::ActivationCheckpointing::full},
    {"sp 2 x tp 2 with cut tokens, full, bf16",
     {.dp_shard_size = 1, .sp_size = 2, .tp_size = 2, .tp_sequence_parallel = true},
     config::Precision::bf16,
     config::ActivationCheckpointing::full},
    {"dp_replicate 2 x dp_shard 2, stage 2, bf16",
     {.dp_replicate_size = 2, .dp_shard_size = 2, .zero_stage = 2},
     config::Precision::bf16},
};

/// One rank, parameters cut and rows cut, gradients summed over replicas and tp.
inline constexpr std::size_t num_everyday_cases = 3;
inline std::vector<RunCase> everyday_cases() { return {run_cases.begin(), run_cases.begin() + num_everyday_cases}; }
inline std::vector<RunCase> other_cases() { return {run_cases.begin() + num_everyday_cases, run_cases.end()}; }

/// A folder with data and configurations, gone at the end of the test.
class Workshop {
 public:
  Workshop() { write_packed_file(path("train.h5"), make_awkward_rows(31, 96, 3), small_vocab_size); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_.file(name); }

  /// Starts `run` with its output in path(output).
  [[nodiscard]] TrainerProgram start(const RunCase& run, const std::string& output, std::int64_t max_steps,
                                     const std::string& resume,
                                     const std::function<void(config::Config&)>& change = {}) const {
    config::Config config;
    config.model = small_qwen2();
    config.data.train_files = {path("train.h5")};
    config.parallel = run.parallel;
    config.train.per_device_train_batch_size = 1;
    config.train.gradient_accumulation_steps = 2;
    config.train.max_steps = max_steps;
    config.train.precision = run.precision;
    config.train.activation_checkpointing = run.checkpointing;
    config.train.output_dir = path(output);
    config.train.logging_steps = 1;
    config.optimizer.learning_rate = 3e-3;
    config.optimizer.lr_scheduler_type = config::Scheduler::cosine;
    config.optimizer.weight_decay = 0.1;
    config.checkpoint.save_steps = max_steps / 2;
    config.checkpoint.resume_from_checkpoint = resume;
    if (change) change(config);
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
  TemporaryFolder folder_;
};

/// The same with rows to evaluate on, path("eval.h5").
struct EvaluationWorkshop : Workshop {
  EvaluationWorkshop() { write_packed_file(path("eval.h5"), make_awkward_rows(13, 40, 5), small_vocab_size); }
};

/// Waits for the program, which must end well.
inline void check_done(TrainerProgram& program, const Workshop& workshop, const std::string& output) {
  const int status = program.wait();
  BOOST_TEST_REQUIRE(status == static_cast<int>(ExitStatus::done), workshop.log_of(output));
}

/// The same steps with the same numbers, and the same last checkpoint.
inline void check_equal(const Workshop& workshop, const std::string& a, const std::string& b, std::int64_t max_steps) {
  const auto steps = read_metrics(workshop.path(a));
  BOOST_TEST(std::ssize(steps) == max_steps);
  BOOST_TEST((steps == read_metrics(workshop.path(b))));
  const auto tensors = read_checkpoint(checkpoint::path_of(workshop.path(a), max_steps));
  BOOST_TEST(!tensors.empty());
  BOOST_TEST((tensors == read_checkpoint(checkpoint::path_of(workshop.path(b), max_steps))));
}

}  // namespace sft::test
