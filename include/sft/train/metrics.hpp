#pragma once
// metrics.jsonl: one JSON object a logged step.

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace sft::train {

/// Highest resident set of a process, over the ranks.
struct MemoryPeaks {
  std::int64_t min_bytes = 0, mean_bytes = 0, max_bytes = 0;
};

/// Of one optimizer step alone, over all ranks.
struct StepMetrics {
  std::int64_t step = 0;  ///< 1-based: steps done
  double epoch = 0.0;     ///< passes over the data done
  double loss = 0.0;
  double grad_norm = 0.0;
  double learning_rate = 0.0;
  std::int64_t num_tokens = 0;
  std::int64_t num_target_tokens = 0;
  double mean_token_accuracy = 0.0;
  double entropy = 0.0;  ///< nats a target token
  double step_time_s = 0.0;
  std::optional<double> mfu;  ///< share of the peak FLOP rate; empty: the peak is unknown
  MemoryPeaks peak_memory;

  [[nodiscard]] double tokens_per_second() const;
  [[nodiscard]] double target_tokens_per_second() const;
};

/// The line, without its newline. Numbers read back to the same bits.
[[nodiscard]] std::string to_json(const StepMetrics& metrics);

/// The lines of `text` whose step is at most `last_step`: what a run resumed after last_step keeps. A last line that
/// was cut off in writing goes too.
[[nodiscard]] std::string keep_steps(const std::string& text, std::int64_t last_step);

/// The file of one run. Every line is on its way to the disk when append returns.
class MetricsFile {
 public:
  /// Opens `path` to go on after `resumed_step` (0: anew): later lines are dropped. Throws a data Error.
  MetricsFile(const std::string& path, std::int64_t resumed_step);
  void append(const StepMetrics& metrics);

 private:
  std::string path_;
  std::ofstream stream_;
};

}  // namespace sft::train
