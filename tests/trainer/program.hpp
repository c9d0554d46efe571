// SPDX-License-Identifier: Apache-2.0
#pragma once
// The `sft` program as a child process, and what its runs leave.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sft/config/config.hpp"

namespace sft::test {

/// `mpirun -np RANKS sft`, started by the constructor with its output in `log_file`.
class TrainerProgram {
 public:
  TrainerProgram(int num_ranks, const std::vector<std::string>& arguments, const std::string& log_file);
  ~TrainerProgram();
  TrainerProgram(const TrainerProgram&) = delete;
  TrainerProgram& operator=(const TrainerProgram&) = delete;

  void send(int signal) const;
  [[nodiscard]] bool is_running() const;
  /// Blocks until the program ends; its exit status.
  int wait();

 private:
  pid_t process_ = -1;
};

/// The numbers of one line of metrics.jsonl that must not depend on the clock; -1 for null.
struct LoggedStep {
  double loss = 0.0, grad_norm = 0.0, learning_rate = 0.0, mean_token_accuracy = 0.0, entropy = 0.0, epoch = 0.0;
  double step_loss = 0.0, num_tokens = 0.0, num_target_tokens = 0.0, step_num_tokens = 0.0;
  bool operator==(const LoggedStep&) const = default;
};
/// By step, without evaluations; empty when the run has no metrics.jsonl yet.
[[nodiscard]] std::map<std::int64_t, LoggedStep> read_metrics(const std::string& output_dir);

/// The numbers of one evaluation in metrics.jsonl that must not depend on the clock.
struct LoggedEvaluation {
  double loss = 0.0, mean_token_accuracy = 0.0, entropy = 0.0, epoch = 0.0, num_target_tokens = 0.0;
  bool operator==(const LoggedEvaluation&) const = default;
};
/// By step. No step may have two.
[[nodiscard]] std::map<std::int64_t, LoggedEvaluation> read_evaluations(const std::string& output_dir);

/// The highest resident sizes so far in the last line of metrics.jsonl: of the ranks, the least and the most.
struct PeakBytes {
  double least = 0.0, most = 0.0;
};
[[nodiscard]] PeakBytes read_peak_bytes(const std::string& output_dir);

/// Every tensor of a checkpoint: "model/NAME", "exp_avg/NAME", "exp_avg_sq/NAME".
[[nodiscard]] std::map<std::string, std::vector<float>> read_checkpoint(const std::string& folder);

}  // namespace sft::test
