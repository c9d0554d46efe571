// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shapes of the schedules whose rates follow from the step alone.

#include <cstdint>

#include "sft/config/config.hpp"

namespace sft::optim {

struct Course {
  std::int64_t num_warmup_steps, num_steps;
};

/// What the rate of the 0-based `step` is of the peak rate, `optimizer.learning_rate`: the same operations in the same
/// order as in transformers/optimization.py. Of reduce_lr_on_plateau it is that before any evaluation.
[[nodiscard]] double share_of_peak(const config::Optimizer& optimizer, const Course& course, std::int64_t step);

}  // namespace sft::optim
