// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a save takes, before the first one: for whoever has to ask a run in time to stop.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/checkpoint/state.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/machine.hpp"

namespace sft::rank {

/// What a rank is taken to write in a second, synced: a fifth of what a disk of a node or its part of a parallel file
/// system usually takes, since ranks of a node share it.
inline constexpr double assumed_write_bytes_per_s = 0.25e9;

struct SaveTime {
  std::uint64_t bytes = 0;          ///< of a checkpoint
  std::uint64_t bytes_of_rank = 0;  ///< that the first rank writes, which has the most
  /// That rank's part at assumed_write_bytes_per_s: all ranks write at once.
  [[nodiscard]] double seconds() const { return static_cast<double>(bytes_of_rank) / assumed_write_bytes_per_s; }
};

/// How large a checkpoint of `entries`, the first rank's, is, and how long it takes. Pure.
[[nodiscard]] SaveTime save_time(const std::vector<checkpoint::Entry>& entries);
/// How large the run's checkpoints are, and how long one takes. Pure but for the data sets' facts.
[[nodiscard]] SaveTime plan_save(const config::ValidConfig& config, const Datasets& datasets, const Machine& machine);

/// "1.2 GiB, 38.4 MiB of a rank: 0.16 s at 250 MB/s of each rank"
[[nodiscard]] std::string describe(const SaveTime& save);

}  // namespace sft::rank
