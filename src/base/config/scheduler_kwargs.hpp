// SPDX-License-Identifier: Apache-2.0
#pragma once
// lr_scheduler_kwargs: text <-> SchedulerKwargs, and which schedule takes what.

#include <string>

#include "sft/config/config.hpp"

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

/// Reads the JSON object; "", "none", "null" and {} mean that nothing is chosen, and so does a field that is null.
/// Numbers may be written as texts, as on TRL's command line. Throws std::invalid_argument that says what is wrong: no
/// JSON object, a field that no schedule has, another type, a value out of range.
[[nodiscard]] SchedulerKwargs parse_scheduler_kwargs(const std::string& text);

/// The inverse of parse_scheduler_kwargs; empty where nothing is chosen.
[[nodiscard]] std::string to_json(const SchedulerKwargs& kwargs);

/// Refuses a schedule with kwargs that it does not have, or that contradict the learning rate or one another, with
/// warm-up that it has not or that is given twice, or without the evaluations that it goes by: throws a configuration
/// Error.
void check_scheduler(const Config& config);

}  // namespace sft::config
