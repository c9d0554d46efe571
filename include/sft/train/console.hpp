// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a person sees of a run. Rank 0 prints; the others stay silent.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "sft/core/status_line.hpp"
#include "sft/train/metrics.hpp"
#include "sft/train/step_table.hpp"

namespace sft::train {

/// Whether a person watches standard output. A launcher may hand its ranks a pseudo terminal although its own output
/// goes to a file, so the parent's output must be a terminal too.
[[nodiscard]] bool is_terminal();

/// A table line for each logged step and each evaluation. For what is between, a terminal has a line in place. A log,
/// which is read later or from afar, has lines that stay: for the first step, at the begin of every evaluation and once
/// a minute of it; and its table says when each line was written, of how many steps, and how much time is left.
class Progress {
 public:
  Progress(std::int64_t first_step, std::int64_t last_step, bool terminal);
  /// Call before the first step: the time left is reckoned from here.
  void begin_steps();
  /// Call after every step. `metrics` has the numbers of this step alone.
  void advance(const StepMetrics& metrics);
  /// Call after advance() for a logged step. Behind it stands how the ranks do (train/health.hpp), as soon as there is
  /// a rate and then every ten minutes.
  void log(const StepMetrics& metrics);
  /// Call after advance() for the first step, unless it is logged; `metrics` as there.
  void log_first(const StepMetrics& metrics);
  /// Call before an evaluation.
  void begin_evaluation(std::int64_t num_rows);
  /// Call before every batch of an evaluation.
  void show_evaluation(std::int64_t num_batches_done, std::int64_t num_batches);
  /// Call after an evaluation.
  void log(const EvalMetrics& metrics);
  /// Ends the line in place, if there is one.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  /// Whether the line in place is there and was drawn long enough ago; then it counts as drawn now.
  [[nodiscard]] bool is_time_to_draw(bool always);
  /// A line of the table, the first one below the names of the columns.
  void print(const std::string& line);
  [[nodiscard]] std::string time_left(std::int64_t step) const;
  /// When the rate is known: how the ranks do, now and then; once, that the job's time will end before the run, where
  /// SLURM tells it.
  void tell_health(const StepMetrics& metrics);
  void tell_job_end(std::int64_t step, double left_s);

  std::int64_t first_step_, last_step_;
  bool is_log_;
  StepTable table_;
  StatusLine line_;
  bool header_printed_ = false, has_told_job_end_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_drawn_{};
  std::optional<Clock::time_point> health_told_;
  Clock::time_point evaluation_start_{}, evaluation_shown_{};
};

}  // namespace sft::train
