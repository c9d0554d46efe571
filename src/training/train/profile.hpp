// SPDX-License-Identifier: Apache-2.0
#pragma once
// The profiled steps of a run (train.profile_steps): the device's timeline is on in them, and goes to
// output_dir/trace.json behind them.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "sft/device/timeline.hpp"
#include "sft/train/console.hpp"
#include "sft/train/run.hpp"

namespace sft::train {

/// Every call is collective over the world; all but two of them do nothing.
class Profile {
 public:
  /// What one rank notes, and how many ranks do, the first: what a viewer can show. Other ranks' profilers are still
  /// told what they do.
  static constexpr std::size_t max_ranges = std::size_t{1} << 16;
  static constexpr int max_ranks = 64;

  /// The profile of a run of `last_step` steps; warns where the profiled ones come behind them. `progress`: to be
  /// finished before a line is printed.
  Profile(const Run& run, std::int64_t last_step, Progress& progress);

  /// Before the 1-based `step`, the first of the run or the one behind the last. What the run does between steps, such
  /// as evaluating and saving, belongs to the step before.
  void begin_step(std::int64_t step);
  void end_step();
  /// Behind the last step of the run.
  void finish();

 private:
  void start();
  /// Writes what was noted. A file that cannot be written is a warning.
  void write();

  const Run& run_;
  Progress& progress_;
  bool is_on_ = false;
  std::int64_t first_step_ = 0, last_step_ = 0;  ///< those that were profiled
  std::int64_t origin_ns_ = 0;                   ///< the same moment on all ranks, as near as the host can tell
  std::optional<device::Timeline::Id> step_;     ///< under way
};

}  // namespace sft::train
