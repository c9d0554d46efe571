// SPDX-License-Identifier: Apache-2.0
#pragma once
// Learning rates over steps, as transformers computes them. Pure.

#include <cstdint>

#include "sft/config/config.hpp"

namespace sft::optim {

/// Rate of the 0-based `step` of `max_steps`: warm-up from 0 over warmup_steps, then the scheduler's shape.
[[nodiscard]] double learning_rate(const config::Optimizer& optimizer, std::int64_t step, std::int64_t max_steps);

}  // namespace sft::optim
