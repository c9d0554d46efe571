// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run prints at its end: how long it took, what became of the loss, how much memory it needed, and what to do
// next.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sft/comm/group.hpp"
#include "sft/device/device.hpp"
#include "sft/device/ledger.hpp"

namespace sft::train {

/// Beginning, end and best of a run, as its metrics.jsonl has them, restarts included.
struct LossCourse {
  struct Point {
    std::int64_t step = 0;
    double loss = 0.0;
  };
  std::optional<Point> first, last;                  ///< among the lines of steps; empty: there is none
  std::optional<Point> first_eval, last_eval, best;  ///< of those of evaluations; best: the lowest loss
};
/// The losses of a metrics.jsonl; of one that is gone, nothing.
[[nodiscard]] LossCourse read_loss_course(const std::string& path);

/// Memory of the rank that needed most: the highest so far, and what its ledger planned for the same memory.
struct HighestPeak {
  std::size_t peak_bytes = 0, planned_bytes = 0;
  int rank = 0;
};
/// Collective over `world`.
[[nodiscard]] HighestPeak gather_highest_peak(device::Device& device, const device::Ledger& ledger,
                                              const comm::Group& world);

/// What the summary says.
struct RunSummary {
  bool is_done = false;  ///< else stopped
  std::int64_t step = 0, last_step = 0;
  double epoch = 0.0;
  // Of this process, which may have gone on from a checkpoint.
  double time_s = 0.0;       ///< from the first forward pass on, evaluations and saving included
  double step_time_s = 0.0;  ///< of its steps alone
  std::int64_t num_steps = 0, num_tokens = 0;
  LossCourse losses;
  HighestPeak memory;
  double planned_step_s = 0, took_step_s = 0;  ///< of a step in the mean; planned 0: not planned
  bool is_gpu = false;                         ///< that the memory is of
  std::vector<std::string> goodput = {};       ///< of the whole run, a line each
  std::vector<std::string> next;               ///< a line each
};

/// Some lines; the last one without its end.
[[nodiscard]] std::string describe(const RunSummary& summary);

}  // namespace sft::train
