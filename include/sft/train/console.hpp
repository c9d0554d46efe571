// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a person sees of a run. Rank 0 prints; the others stay silent.

#include <chrono>
#include <cstdint>
#include <string>

#include "sft/core/status_line.hpp"
#include "sft/train/metrics.hpp"

namespace sft::train {

/// "1.25 M", "40.1 k", "812"
[[nodiscard]] std::string format_count(double count);
/// "1:02:03", "4:05"
[[nodiscard]] std::string format_duration(double time_s);

/// "0.42 s"
[[nodiscard]] std::string format_seconds(double time_s);

/// Whether a person watches standard output. A launcher may hand its ranks a pseudo terminal although its own output
/// goes to a file, so the parent's output must be a terminal too.
[[nodiscard]] bool is_terminal();

/// A table line for each logged step and each evaluation and, on a terminal, a line in place for what is between.
class Progress {
 public:
  Progress(std::int64_t first_step, std::int64_t last_step, bool terminal);
  /// Call after every step.
  void advance(std::int64_t step, double loss, double learning_rate, double tokens_per_second);
  /// Call after a logged step.
  void log(const StepMetrics& metrics);
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
  /// The names of the columns, once.
  void print_header();

  std::int64_t first_step_, last_step_;
  StatusLine line_;
  bool header_printed_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_drawn_{};
};

}  // namespace sft::train
