// SPDX-License-Identifier: Apache-2.0
#pragma once
// The names of the fields of SchedulerKwargs.

namespace sft::config {

/// Calls visit(name, field) for every field of SchedulerKwargs.
template <class Kwargs, class Visit>
void for_each_kwarg(Kwargs&& kwargs, const Visit& visit) {
  visit("num_cycles", kwargs.num_cycles);
  visit("lr_end", kwargs.lr_end);
  visit("power", kwargs.power);
  visit("timescale", kwargs.timescale);
  visit("min_lr", kwargs.min_lr);
  visit("min_lr_rate", kwargs.min_lr_rate);
  visit("warmup_lr_rate", kwargs.warmup_lr_rate);
  visit("num_stable_steps", kwargs.num_stable_steps);
  visit("num_decay_steps", kwargs.num_decay_steps);
  visit("warmup_type", kwargs.warmup_type);
  visit("decay_type", kwargs.decay_type);
  visit("min_lr_ratio", kwargs.min_lr_ratio);
  visit("mode", kwargs.mode);
  visit("factor", kwargs.factor);
  visit("patience", kwargs.patience);
  visit("threshold", kwargs.threshold);
  visit("threshold_mode", kwargs.threshold_mode);
  visit("cooldown", kwargs.cooldown);
  visit("eps", kwargs.eps);
}

}  // namespace sft::config
