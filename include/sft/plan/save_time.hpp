// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a save takes, before the first one: for whoever has to ask a run in time to stop.

#include <cstdint>

#include "sft/config/valid_config.hpp"
#include "sft/plan/datasets.hpp"
#include "sft/plan/machine.hpp"

namespace sft::plan {

/// What a rank is taken to write in a second, synced: a fifth of what a disk of a node or its part of a parallel file
/// system usually takes, since ranks of a node share it.
inline constexpr double assumed_write_bytes_per_s = 0.25e9;

struct SaveTime {
  std::uint64_t bytes = 0;               ///< of a checkpoint
  std::uint64_t most_bytes_of_rank = 0;  ///< that the rank with most of it writes
  /// That rank's part at assumed_write_bytes_per_s: all ranks write at once.
  [[nodiscard]] double seconds() const { return static_cast<double>(most_bytes_of_rank) / assumed_write_bytes_per_s; }
};

/// Of the run's checkpoints: weights that are trained and the state of the optimizer, each number as float32, codes as
/// bytes. Works out every rank of one copy of the model. Pure but for the data sets' facts.
[[nodiscard]] SaveTime plan_save(const config::ValidConfig& config, const Datasets& datasets, const Machine& machine);

}  // namespace sft::plan
