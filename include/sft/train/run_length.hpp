// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many steps a run has, and where in the data it stands. Pure.

#include <cstdint>

#include "sft/config/config.hpp"

namespace sft::train {

/// Optimizer steps of the whole run: max_steps, or as many as num_train_epochs passes over num_rows rows need (rounded
/// up) when max_steps is -1.
[[nodiscard]] std::int64_t num_steps(const config::Config& config, std::int64_t num_rows);

/// Passes over the data done after `steps` steps.
[[nodiscard]] double epochs_after(std::int64_t steps, std::int64_t batch_rows, std::int64_t num_rows);

/// Whether something due every `interval` steps (0: never) is due after the 1-based `step`.
[[nodiscard]] bool is_due(std::int64_t step, std::int64_t interval);

}  // namespace sft::train
