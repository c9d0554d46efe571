// SPDX-License-Identifier: Apache-2.0
#include "sft/optim/schedule.hpp"

#include <cmath>

#include "schedule_shapes.hpp"

namespace sft::optim {

std::int64_t num_warmup_steps(const config::Optimizer& optimizer, std::int64_t num_steps) {
  const double steps = optimizer.warmup_steps;
  if (steps >= 1) return static_cast<std::int64_t>(steps);
  const double ratio = steps > 0 ? steps : optimizer.warmup_ratio;
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(num_steps) * ratio));
}

Schedule::Schedule(const config::Optimizer& optimizer, std::int64_t num_steps)
    : optimizer_(optimizer), num_steps_(num_steps), num_warmup_steps_(num_warmup_steps(optimizer, num_steps)) {
  if (optimizer.lr_scheduler_type == config::Scheduler::reduce_lr_on_plateau) {
    plateau_.emplace(optimizer.lr_scheduler_kwargs, optimizer.learning_rate);
  }
}

double Schedule::rate(std::int64_t step) const {
  if (plateau_) return plateau_->rate();
  return optimizer_.learning_rate * share_of_peak(optimizer_, {num_warmup_steps_, num_steps_}, step);
}

void Schedule::observe(double eval_loss) {
  if (plateau_) plateau_->observe(eval_loss);
}

std::string Schedule::state() const { return plateau_ ? plateau_->state() : ""; }

void Schedule::restore(const std::string& state) {
  if (plateau_ && !state.empty()) plateau_->restore(state);
}

}  // namespace sft::optim
