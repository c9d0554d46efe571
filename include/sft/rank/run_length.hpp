// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many steps a run has, and where in the data it stands. Pure.

#include <cstdint>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/config/config.hpp"
#include "sft/rows/row_order.hpp"

namespace sft::rank {

/// What data.row_order means for num_rows rows: with auto TRL's order where they are shuffled and few enough for it. A
/// configuration Error where there are too many for the order that is asked for.
[[nodiscard]] rows::OrderKind row_order(const config::Data& data, std::int64_t num_rows);

/// What data.row_order is called where it is this kind.
[[nodiscard]] config::RowOrder name_of(rows::OrderKind kind);

/// Which part of that order every step of the run has.
[[nodiscard]] rows::StepPositions step_positions(const config::Config& config, std::int64_t num_rows,
                                                 const rows::StepOrigin& origin = {});

/// The origin of a run with this configuration that goes on from `position`, whose last step was to have
/// `batch_rows_then` rows: none ({}) where all steps so far could have had the batch of `config`.
[[nodiscard]] rows::StepOrigin origin_at(const config::Config& config, const checkpoint::Position& position,
                                         std::int64_t batch_rows_then);

/// Optimizer steps of the whole run: max_steps, or as many as num_train_epochs passes over num_rows rows need (rounded
/// up) when max_steps is -1. In TRL's order an epoch has whole steps. Behind an origin, as many more as the rows take
/// that are left.
[[nodiscard]] std::int64_t num_steps(const config::Config& config, std::int64_t num_rows,
                                     const rows::StepOrigin& origin = {});

/// Passes over the data done after `steps` steps.
[[nodiscard]] double epochs_after(std::int64_t steps, const rows::StepPositions& positions);

/// Whether the 1-based `step` is the one that completes a pass over the data.
[[nodiscard]] bool is_epoch_end(std::int64_t step, const rows::StepPositions& positions);

/// Whether something due every `interval` steps (0: never) is due after the 1-based `step`.
[[nodiscard]] bool is_due(std::int64_t step, std::int64_t interval);

}  // namespace sft::rank
