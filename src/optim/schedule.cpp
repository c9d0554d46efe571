// SPDX-License-Identifier: Apache-2.0
#include "sft/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sft::optim {

namespace {

/// Share of the peak rate at `step`.
double share(const config::Optimizer& optimizer, std::int64_t step, std::int64_t max_steps) {
  using config::Scheduler;
  const std::int64_t warmup_steps = optimizer.warmup_steps;
  if (optimizer.lr_scheduler_type == Scheduler::constant) return 1.0;
  if (step < warmup_steps) return static_cast<double>(step) / static_cast<double>(warmup_steps);
  const double decay_steps = static_cast<double>(std::max<std::int64_t>(1, max_steps - warmup_steps));
  switch (optimizer.lr_scheduler_type) {
    case Scheduler::linear:
      return std::max(0.0, static_cast<double>(max_steps - step) / decay_steps);
    case Scheduler::cosine: {
      const double progress = static_cast<double>(step - warmup_steps) / decay_steps;
      return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    }
    case Scheduler::constant:
    case Scheduler::constant_with_warmup:
      break;
  }
  return 1.0;
}

}  // namespace

double learning_rate(const config::Optimizer& optimizer, std::int64_t step, std::int64_t max_steps) {
  return optimizer.learning_rate * share(optimizer, step, max_steps);
}

}  // namespace sft::optim
