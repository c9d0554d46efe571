// SPDX-License-Identifier: Apache-2.0
#pragma once
// The schedules of the learning rate and what can be chosen of each, under the names of transformers.

#include <cstdint>
#include <optional>

namespace sft::config {

enum class Scheduler {
  linear,
  cosine,
  cosine_with_restarts,
  polynomial,
  constant,
  constant_with_warmup,
  inverse_sqrt,
  reduce_lr_on_plateau,
  cosine_with_min_lr,
  cosine_warmup_with_min_lr,
  warmup_stable_decay,
};

/// How warmup_stable_decay rises and falls.
enum class Curve { linear, cosine, one_minus_sqrt };
/// Which losses reduce_lr_on_plateau takes for better ones.
enum class Better { min, max };
/// By how much they must be so: a share of the best one, or a difference.
enum class ThresholdMode { rel, abs };

/// lr_scheduler_kwargs, whose meaning docs/configuration.md has. What is not given has the default of transformers and
/// torch.
struct SchedulerKwargs {
  std::optional<double> num_cycles = {};  // of cosines
  std::optional<double> lr_end = {}, power = {};
  std::optional<double> timescale = {};
  std::optional<double> min_lr = {}, min_lr_rate = {}, warmup_lr_rate = {};
  // of warmup_stable_decay
  std::optional<std::int64_t> num_stable_steps = {}, num_decay_steps = {};
  std::optional<Curve> warmup_type = {}, decay_type = {};
  std::optional<double> min_lr_ratio = {};
  // of reduce_lr_on_plateau, as is min_lr
  std::optional<Better> mode = {};
  std::optional<double> factor = {}, threshold = {}, eps = {};
  std::optional<std::int64_t> patience = {}, cooldown = {};
  std::optional<ThresholdMode> threshold_mode = {};

  /// The rate that polynomial ends with.
  [[nodiscard]] double lr_end_or_default() const { return lr_end.value_or(1e-7); }
};

}  // namespace sft::config
