// SPDX-License-Identifier: Apache-2.0
#pragma once
// Goodput: how much of a run's wall time, from the first start of the run on, went into steps that it still has, and
// what the rest went into. A run that was killed is known by what it left: its checkpoint, metrics.jsonl, and
// starts.jsonl, which has a line of every start of a run in the folder.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sft::train {

/// All processes of one run (its run id) together, in seconds.
struct TimeUse {
  double total_s = 0.0;   ///< since the first start
  double useful_s = 0.0;  ///< steps whose work the run has: not repeated, not left out
  double save_s = 0.0;    ///< checkpoints, while no step ran
  double evaluation_s = 0.0;
  double restart_s = 0.0;   ///< start-ups, and from the last sign of life before a restart to the next start
  double repeated_s = 0.0;  ///< steps behind the checkpoint that a run went on from
  std::int64_t num_repeated_steps = 0;
  std::int64_t num_restarts = 0;

  /// useful_s / total_s; 0 without any time.
  [[nodiscard]] double goodput() const;
  /// What none of these explains: reading ahead at the start of a step is in it, logging, a profile.
  [[nodiscard]] double other_s() const;
  bool operator==(const TimeUse&) const = default;
};

/// "91.2 % of 2:03:04 since the first start; 2 restarts, 12 steps repeated", and a line of what the rest went into:
/// "saves 3.1 %, restarts 5.1 %, other 0.6 %", but for parts below 0.05 %.
[[nodiscard]] std::vector<std::string> describe(const TimeUse& use);

/// What a run was known to have done at some time.
struct TimeNote {
  double time_s = 0.0;  ///< UNIX time of the note
  std::int64_t step = 0;
  TimeUse use;
};

/// Counts the time of this process, beginning with what is known of those before it. Times are UNIX times in seconds,
/// those of now() in a run; a clock that was set back between two processes makes no time negative.
class Goodput {
 public:
  /// A run that begins with this process, which started at `process_start_s`.
  explicit Goodput(double process_start_s);

  /// The run goes on from a checkpoint of `step` that has the note `saved` (none: of an earlier version), after the
  /// process that left the notes `started` and `logged` last.
  void resume(std::int64_t step, const std::optional<TimeNote>& saved, const std::optional<TimeNote>& started,
              const std::optional<TimeNote>& logged);
  /// Restarts that whoever launches the run has counted, when it knows of more than the run's own files do.
  void count_restarts(std::int64_t num_restarts);
  /// Setting up has ended: the first step, or an evaluation before it, begins.
  void begin_steps(double now_s);
  void add_step(double time_s) { use_.useful_s += time_s; }
  void add_save(double time_s) { use_.save_s += time_s; }
  void add_evaluation(double time_s) { use_.evaluation_s += time_s; }

  [[nodiscard]] TimeUse at(double now_s) const;
  [[nodiscard]] TimeNote note(double now_s, std::int64_t step) const { return {now_s, step, at(now_s)}; }
  /// "resumed after 41.0 s, 12 steps repeated", once steps have begun; empty in a run that begins.
  [[nodiscard]] std::string describe_resume() const;

  /// This process's clock: that of the system at its first use, which the steady clock carries on.
  [[nodiscard]] static double now();

 private:
  double first_start_s_, process_start_s_;
  double last_sign_s_;  ///< of the process before, or the start of this one; from there to the first step it restarts
  TimeUse use_;         ///< but total_s
  bool is_resumed_ = false, has_begun_ = false;
  double resumed_after_s_ = 0.0;
  std::int64_t num_repeated_now_ = 0;  ///< steps behind the checkpoint, by the last sign of life
};

/// The restarts that the environment variable SFT_RESTARTS counts; 0 where it is not set. A text that is no number is
/// told of in a warning.
[[nodiscard]] std::int64_t launched_restarts();

}  // namespace sft::train
