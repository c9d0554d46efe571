// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run reads, and which part of it a rank.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "sft/comm/group.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/mesh/place.hpp"
#include "sft/rows/loader.hpp"
#include "sft/rows/micro_batch_limits.hpp"
#include "sft/rows/packed_dataset.hpp"

namespace sft::rank {

/// A method of sequence parallelism, no part of it auto.
struct SpChoice {
  config::SpMethod method;
  int ulysses_size;

  bool operator==(const SpChoice&) const = default;
};

/// What a run reads: opened, and checked against its configuration.
struct Datasets {
  rows::PackedDataset train;
  std::optional<rows::PackedDataset> eval;  ///< rows to evaluate on, not longer than those of `train`; empty: none
  std::optional<rows::MicroBatchLimits> measured_limits = {};  ///< as measure_limits says; empty: rows may be full
  rows::StepOrigin origin = {};           ///< of the steps of training, where the run goes on from a checkpoint
  std::optional<SpChoice> saved_sp = {};  ///< of that checkpoint, where a run on this very mesh wrote it

  /// What memory is laid out for.
  [[nodiscard]] rows::MicroBatchLimits limits(const config::ValidConfig& config) const {
    return measured_limits.value_or(
        rows::limits_of_full_rows(config->train.per_device_train_batch_size, train.max_length()));
  }
};

/// The limits of the micro-batches of training, from its first step on, and of evaluation: reads the document tables.
[[nodiscard]] rows::MicroBatchLimits measure_limits(const config::ValidConfig& config, const Datasets& datasets);

/// What a rank reads of num_rows rows in steps [first_step, last_step), micro-batches being within `limits`. Pure.
[[nodiscard]] rows::LoaderPlan loader_plan(const config::ValidConfig& config, const mesh::Place& place,
                                           std::int64_t num_rows, std::int64_t first_step, std::int64_t last_step,
                                           const rows::MicroBatchLimits& limits, const rows::StepOrigin& origin = {});

/// What a rank reads in one evaluation: every row once, in file order, in micro-batches of training's size. Where the
/// rows do not fill the last ones, ranks get empty ones, so that all take part in as many. Pure but for the
/// data sets' facts.
[[nodiscard]] rows::LoaderPlan eval_loader_plan(const config::ValidConfig& config, const mesh::Place& place,
                                                const Datasets& datasets);

/// The method that a run with `then` had, where it had the mesh of `now`. Pure.
[[nodiscard]] std::optional<SpChoice> saved_sp(const config::Parallel& now, const config::Parallel& then);

/// Gives all ranks the origin that rank 0 has. Collective.
void broadcast(rows::StepOrigin& origin, const comm::Group& world);

/// What of the row tables of `datasets` a rank keeps: that which it reads rows by, of what is held. A rank that does
/// not read keeps nothing. The way over sp may still be open (sp_method = auto).
void keep_needed_rows(const config::ValidConfig& config, const mesh::Place& place, Datasets& datasets);

/// Memory of the row tables that this process holds. The ledger has what a rank keeps of them among its batches.
[[nodiscard]] std::size_t row_table_bytes(const Datasets& datasets);

/// Host memory of a rank's batches: of training and, where there is one, of an evaluation.
[[nodiscard]] std::size_t batches_bytes(const config::ValidConfig& config, const mesh::Place& place,
                                        const Datasets& datasets);

}  // namespace sft::rank
