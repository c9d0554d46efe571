// SPDX-License-Identifier: Apache-2.0
#include "sft/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sft::optim {

namespace {

using config::Curve;
using config::Scheduler;
using config::SchedulerKwargs;
using std::numbers::pi;

struct Course {
  std::int64_t num_warmup_steps, num_steps;
};

/// `part` of `whole` steps.
double fraction(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole));
}

/// How far the steps behind warm-up are done.
double progress_of(const Course& course, std::int64_t step) {
  return fraction(step - course.num_warmup_steps, course.num_steps - course.num_warmup_steps);
}

double wave(double num_cycles, double progress) { return 0.5 * (1.0 + std::cos(pi * num_cycles * 2.0 * progress)); }

/// `share` of the way from `least` to 1.
double lifted(double share, double least) { return std::max(0.0, share * (1.0 - least) + least); }

double share_of_restarts(double num_cycles, double progress) {
  if (progress >= 1.0) return 0.0;
  return std::max(0.0, 0.5 * (1.0 + std::cos(pi * std::fmod(num_cycles * progress, 1.0))));
}

double share_of_polynomial(const config::Optimizer& optimizer, const Course& course, std::int64_t step) {
  const double end = optimizer.lr_scheduler_kwargs.lr_end_or_default(), peak = optimizer.learning_rate;
  if (step > course.num_steps) return end / peak;
  const double remaining = 1.0 - progress_of(course, step);
  return ((peak - end) * std::pow(remaining, optimizer.lr_scheduler_kwargs.power.value_or(1.0)) + end) / peak;
}

double share_of_inverse_sqrt(const SchedulerKwargs& kwargs, const Course& course, std::int64_t step) {
  const double warmup = static_cast<double>(course.num_warmup_steps);
  const double timescale = kwargs.timescale.value_or(warmup > 0 ? warmup : 10000.0);
  const double shift = timescale - warmup;
  return 1.0 / std::sqrt((static_cast<double>(step) + shift) / timescale);
}

/// Which share of the peak rate the lowest one is.
double least_share(const config::Optimizer& optimizer) {
  const SchedulerKwargs& kwargs = optimizer.lr_scheduler_kwargs;
  return kwargs.min_lr ? *kwargs.min_lr / optimizer.learning_rate : kwargs.min_lr_rate.value_or(0.0);
}

/// Of cosine_warmup_with_min_lr, which is a step ahead: the first step has a rate already.
double share_of_early_cosine(const config::Optimizer& optimizer, const Course& course, std::int64_t step) {
  const SchedulerKwargs& kwargs = optimizer.lr_scheduler_kwargs;
  if (step >= course.num_warmup_steps) {
    return lifted(wave(kwargs.num_cycles.value_or(0.5), progress_of(course, step + 1)), least_share(optimizer));
  }
  if (!kwargs.warmup_lr_rate) return fraction(step + 1, course.num_warmup_steps);
  const double first = *kwargs.warmup_lr_rate;
  return first + (1.0 - first) * static_cast<double>(step) /
                     static_cast<double>(std::max<std::int64_t>(1, course.num_warmup_steps - 1));
}

double rising(Curve curve, double progress) {
  if (curve == Curve::linear) return progress;
  return curve == Curve::cosine ? 0.5 * (1.0 - std::cos(pi * progress)) : 1.0 - std::sqrt(1.0 - progress);
}

double falling(Curve curve, double progress, double num_cycles) {
  if (curve == Curve::linear) return 1.0 - progress;
  return curve == Curve::cosine ? wave(num_cycles, progress) : 1.0 - std::sqrt(progress);
}

double share_of_stable_decay(const SchedulerKwargs& kwargs, const Course& course, std::int64_t step) {
  const std::int64_t warmup = course.num_warmup_steps, decay = kwargs.num_decay_steps.value_or(0);
  const std::int64_t stable = kwargs.num_stable_steps.value_or(course.num_steps - warmup - decay);
  const double least = kwargs.min_lr_ratio.value_or(0.0);
  if (step < warmup) return lifted(rising(kwargs.warmup_type.value_or(Curve::linear), fraction(step, warmup)), least);
  if (step < warmup + stable) return 1.0;
  if (step >= warmup + stable + decay) return least;
  return lifted(falling(kwargs.decay_type.value_or(Curve::cosine), fraction(step - warmup - stable, decay),
                        kwargs.num_cycles.value_or(0.5)),
                least);
}

/// What the rate of the 0-based `step` is of the peak rate, `optimizer.learning_rate`: the same operations in the same
/// order as in transformers/optimization.py. Of reduce_lr_on_plateau it is that before any evaluation.
double share_of_peak(const config::Optimizer& optimizer, const Course& course, std::int64_t step) {
  const Scheduler type = optimizer.lr_scheduler_type;
  const SchedulerKwargs& kwargs = optimizer.lr_scheduler_kwargs;
  if (type == Scheduler::constant || type == Scheduler::reduce_lr_on_plateau) return 1.0;
  if (type == Scheduler::cosine_warmup_with_min_lr) return share_of_early_cosine(optimizer, course, step);
  if (type == Scheduler::warmup_stable_decay) return share_of_stable_decay(kwargs, course, step);
  if (step < course.num_warmup_steps) return fraction(step, course.num_warmup_steps);
  switch (type) {
    case Scheduler::linear:
      return std::max(0.0, fraction(course.num_steps - step, course.num_steps - course.num_warmup_steps));
    case Scheduler::cosine:
      return std::max(0.0, wave(kwargs.num_cycles.value_or(0.5), progress_of(course, step)));
    case Scheduler::cosine_with_restarts:
      return share_of_restarts(kwargs.num_cycles.value_or(1.0), progress_of(course, step));
    case Scheduler::polynomial:
      return share_of_polynomial(optimizer, course, step);
    case Scheduler::inverse_sqrt:
      return share_of_inverse_sqrt(kwargs, course, step);
    case Scheduler::cosine_with_min_lr:
      return lifted(wave(kwargs.num_cycles.value_or(0.5), progress_of(course, step)), least_share(optimizer));
    default:
      return 1.0;
  }
}

}  // namespace

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
