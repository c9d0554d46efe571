// SPDX-License-Identifier: Apache-2.0
#pragma once
// metrics.jsonl: one JSON object per logged step, and one per evaluation; starts.jsonl: one per start of a run.

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "sft/io/files.hpp"
#include "sft/train/goodput.hpp"

namespace sft::train {

/// The most memory of a rank so far, over the ranks, and where least is left (train/memory_peaks.hpp).
struct MemoryPeaks {
  std::int64_t min_bytes = 0, mean_bytes = 0, max_bytes = 0;
  int max_rank = 0;  ///< the first that has max_bytes
  /// Where the largest share is used: of a GPU its rank, of a node that of its ranks that has most.
  struct Fullest {
    int rank = 0;
    std::int64_t peak_bytes = 0;                   ///< of this rank
    std::int64_t used_bytes = 0, limit_bytes = 0;  ///< of the GPU; of the node, by all ranks on it
    bool is_node = true;
  };
  std::optional<Fullest> fullest;  ///< none where no rank knows its limit
};

/// The rank that computed longest in the steps since the last line, without the time in which it waited for others.
struct SlowestRank {
  int rank = 0;
  double ratio = 1.0;     ///< of its time to the median of all ranks
  double excess_s = 0.0;  ///< over the median, a step
  /// Of a step's time, what even this rank waited for others: communication that nothing hides. Not on GPUs, where the
  /// host does not see it.
  std::optional<double> exposed_share;
};

/// One line, over all ranks. The names that TRL has too mean what they mean there: loss, mean_token_accuracy and
/// entropy are means over the steps since the last line, num_tokens is a running sum. Those with step_ are of this step
/// alone. NaN, which JSON has not, is written null: the numbers of a step that was left out (nan_policy), which is in
/// no mean and in no sum.
struct StepMetrics {
  std::int64_t step = 0;                             ///< 1-based: steps done
  double epoch = 0.0;                                ///< passes over the data done
  double loss = 0.0;                                 ///< mean of the steps' losses
  double grad_norm = 0.0;                            ///< of this step
  double learning_rate = 0.0;                        ///< of this step
  std::int64_t num_tokens = 0;                       ///< since the run began
  std::int64_t num_target_tokens = 0;                ///< since the run began
  double mean_token_accuracy = 0.0;                  ///< mean of the steps'
  double entropy = 0.0;                              ///< nats per target token, mean of the steps'
  std::optional<double> aux_loss, expert_imbalance;  ///< of this step's routers; none without experts
  double step_loss = 0.0;
  std::int64_t step_num_tokens = 0;
  std::int64_t step_num_target_tokens = 0;
  double step_time_s = 0.0;
  std::optional<std::int64_t> resumed_step;  ///< in the first line after a restart: the step that it went on from
  double save_stall_s = 0.0;                 ///< that training stood still for checkpoints since the last line
  std::optional<double> mfu;                 ///< share of the peak FLOP rate; empty: the peak is unknown
  std::optional<SlowestRank> slowest;        ///< of several ranks; none in a line of the first step alone
  MemoryPeaks peak_memory;
  std::int64_t planned_memory_bytes = 0;      ///< for that of the fullest rank; 0: not written
  std::optional<double> planned_step_time_s;  ///< empty: no machine was named to plan it for
  std::int64_t num_skipped_steps = 0;         ///< left out since the run began; not written when there was none
  std::string fp8;                            ///< train.fp8; empty: none, and not written
  std::optional<TimeNote> time;               ///< what the run's time went to; not written where it is empty

  /// The rates of this step.
  [[nodiscard]] double tokens_per_second() const;
  [[nodiscard]] double target_tokens_per_second() const;
};

/// What one evaluation found, over all rows of data.eval_files.
struct EvalMetrics {
  std::int64_t step = 0;  ///< steps done before it
  double epoch = 0.0;
  double loss = 0.0;
  double mean_token_accuracy = 0.0;
  double entropy = 0.0;
  std::int64_t num_target_tokens = 0;
  double time_s = 0.0;
};

/// The line, without its newline. Numbers read back to the same bits.
[[nodiscard]] std::string to_json(const StepMetrics& metrics);
[[nodiscard]] std::string to_json(const EvalMetrics& metrics);

/// A line of starts.jsonl: the run `run_id` starts with `note`. Also the note of a checkpoint.
[[nodiscard]] std::string to_json(const TimeNote& note, const std::string& run_id);
/// The note in such a line, or in one of metrics.jsonl; nothing in any other text.
[[nodiscard]] std::optional<TimeNote> parse_time_note(const std::string& text);
/// The last note of the run `run_id` in a starts.jsonl, and the last one in a metrics.jsonl, by their text; nothing
/// when there is none.
[[nodiscard]] std::optional<TimeNote> last_start_of(const std::string& run_id, const std::string& starts);
[[nodiscard]] std::optional<TimeNote> last_line_of(const std::string& metrics);
/// Appends such a line to the file at `path`, with the steps that the run is to have. Throws a data Error.
void append_start(const std::string& path, const TimeNote& note, const std::string& run_id, std::int64_t num_steps);

/// The lines of `text` that a run keeps which goes on after `last_step`: those of steps up to it, and of evaluations up
/// to `last_evaluation`, the step whose weights were evaluated last (-1: none), because a later one comes again. A last
/// line that was cut off in writing goes too.
[[nodiscard]] std::string keep_steps(const std::string& text, std::int64_t last_step, std::int64_t last_evaluation);

/// What becomes of the lines that a folder holds already.
enum class EarlierLines {
  keep,           ///< those up to the resumed step: the run goes on in its own file
  keep_and_copy,  ///< the same, and all of them in a copy: a branch leaves later lines behind
  set_aside,      ///< they are of another run
};

/// The file of one run. Every line is on its way to the disk when append returns. Where the file was removed or
/// replaced meanwhile, a warning says so and the line goes to the end of the file that is at `path` now, new if there
/// is none.
class MetricsFile {
 public:
  /// Opens `path` for the lines after `resumed_step`, of evaluations after `evaluated_step`. Lines that it does not
  /// keep, or all of them as `earlier` says, are in PATH.old, or the first free name of PATH.old.1, .2 ...; a warning
  /// says so. Throws a data Error.
  MetricsFile(const std::string& path, std::int64_t resumed_step, std::int64_t evaluated_step, EarlierLines earlier);
  /// Adds a line, given without its newline.
  void append(const std::string& line);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  /// Opens what is at the path, or makes it.
  void open();
  /// Whether the file that is open is the one at the path.
  [[nodiscard]] bool is_in_place() const;

  std::string path_;
  io::FileIdentity identity_;
  std::ofstream stream_;
};

}  // namespace sft::train
