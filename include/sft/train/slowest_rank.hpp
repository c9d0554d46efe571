// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which rank computes longest: all others wait for it in every step.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sft/comm/group.hpp"
#include "sft/train/metrics.hpp"

namespace sft::train {

/// The slowest of the ranks, and its ratio to the median. times_s: one time for each rank, at least one. Pure.
[[nodiscard]] SlowestRank slowest_of(std::span<const double> times_s);

/// The times of this rank's steps, and what came of them on all ranks.
class SlowestRankWatch {
 public:
  /// A step took so long, and so much of it was waiting for other ranks. The first one of a process, in which memory
  /// is touched for the first time, is left out.
  void add_step(double step_time_s, double waited_s);

  /// Over the mean times of the steps since the last call; none where there were no steps. Once in a run, when the same
  /// rank took more than 1.2 times the median for long, a line for people that names its host; else empty.
  /// `sees_waits`: what is waited for here is what the step waited for, as on CPUs. Collective.
  struct Finding {
    std::optional<SlowestRank> slowest;
    std::string warning;
  };
  [[nodiscard]] Finding close(const comm::Group& world, bool sees_waits);

 private:
  bool has_begun_ = false, has_warned_ = false;
  double compute_s_ = 0.0, waited_s_ = 0.0;
  std::int64_t num_steps_ = 0;
  int same_rank_ = -1;  ///< that was too slow in all of the last same_steps_
  std::int64_t same_steps_ = 0;
  int same_lines_ = 0;  ///< in which these steps are
};

}  // namespace sft::train
