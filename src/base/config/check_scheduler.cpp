// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <string>
#include <vector>

#include "config/scheduler_kwargs.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

std::vector<std::string> kwargs_of(Scheduler type) {
  switch (type) {
    case Scheduler::linear:
    case Scheduler::constant:
    case Scheduler::constant_with_warmup:
      return {};
    case Scheduler::cosine:
    case Scheduler::cosine_with_restarts:
      return {"num_cycles"};
    case Scheduler::polynomial:
      return {"lr_end", "power"};
    case Scheduler::inverse_sqrt:
      return {"timescale"};
    case Scheduler::reduce_lr_on_plateau:
      return {"mode", "factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lr", "eps"};
    case Scheduler::cosine_with_min_lr:
      return {"num_cycles", "min_lr", "min_lr_rate"};
    case Scheduler::cosine_warmup_with_min_lr:
      return {"num_cycles", "min_lr", "min_lr_rate", "warmup_lr_rate"};
    case Scheduler::warmup_stable_decay:
      return {"num_decay_steps", "num_stable_steps", "warmup_type", "decay_type", "min_lr_ratio", "num_cycles"};
  }
  return {};
}

std::string type_text(const Optimizer& optimizer) {
  return fmt::format("lr_scheduler_type = {}", write(optimizer.lr_scheduler_type));
}

void check_names(const Optimizer& optimizer) {
  const std::vector<std::string> known = kwargs_of(optimizer.lr_scheduler_type);
  for_each_kwarg(optimizer.lr_scheduler_kwargs, [&](const char* name, const auto& value) {
    if (!value || std::ranges::find(known, name) != known.end()) return;
    throw_config_error(fmt::format("`optimizer.lr_scheduler_kwargs` has a {} that would be ignored", name),
                       fmt::format("{} takes {}", type_text(optimizer),
                                   known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))),
                       "leave it out, or choose a schedule that takes it");
  });
}

void check_lowest_rate(const Optimizer& optimizer) {
  const SchedulerKwargs& kwargs = optimizer.lr_scheduler_kwargs;
  if (kwargs.min_lr && kwargs.min_lr_rate) {
    throw_config_error("`optimizer.lr_scheduler_kwargs` has both min_lr and min_lr_rate",
                       "both say how far the rate falls, the one as a rate, the other as a share of learning_rate",
                       "keep one of them");
  }
  if (!kwargs.min_lr && !kwargs.min_lr_rate) {
    throw_config_error(fmt::format("{} does not know how far the rate falls", type_text(optimizer)),
                       "`optimizer.lr_scheduler_kwargs` has neither min_lr nor min_lr_rate",
                       R"(set one of them, such as lr_scheduler_kwargs = {"min_lr_rate": 0.1})");
  }
  if (kwargs.min_lr && optimizer.learning_rate == 0) {
    throw_config_error("the min_lr of `optimizer.lr_scheduler_kwargs` is no share of learning_rate",
                       fmt::format("min_lr / learning_rate = {} / 0", write(*kwargs.min_lr)),
                       "set optimizer.learning_rate above 0, or give min_lr_rate in its place");
  }
}

void check_kwargs(const Optimizer& optimizer) {
  check_names(optimizer);
  const SchedulerKwargs& kwargs = optimizer.lr_scheduler_kwargs;
  const Scheduler type = optimizer.lr_scheduler_type;
  if (type == Scheduler::cosine_with_min_lr || type == Scheduler::cosine_warmup_with_min_lr) {
    check_lowest_rate(optimizer);
  }
  if (const double end = kwargs.lr_end_or_default();
      type == Scheduler::polynomial && !(optimizer.learning_rate > end)) {
    throw_config_error(fmt::format("{} cannot fall to its lr_end", type_text(optimizer)),
                       fmt::format("lr_end = {} is not below optimizer.learning_rate = {}", write(end),
                                   write(optimizer.learning_rate)),
                       R"(set a smaller one, such as lr_scheduler_kwargs = {"lr_end": 0}, or a larger learning_rate)");
  }
  if (type == Scheduler::warmup_stable_decay && !kwargs.num_decay_steps) {
    throw_config_error(fmt::format("{} does not know how long the rate falls", type_text(optimizer)),
                       "`optimizer.lr_scheduler_kwargs` has no num_decay_steps",
                       R"(set it, such as lr_scheduler_kwargs = {"num_decay_steps": 100})");
  }
}

void check_warmup(const Config& config) {
  const Optimizer& optimizer = config.optimizer;
  const bool has_steps = optimizer.warmup_steps > 0, has_ratio = optimizer.warmup_ratio > 0;
  if (has_steps && has_ratio) {
    throw_config_error(fmt::format("`optimizer.warmup_steps = {}` and warmup_ratio = {} contradict each other",
                                   write(optimizer.warmup_steps), write(optimizer.warmup_ratio)),
                       "both say how long warm-up is", "keep one of them");
  }
  const bool has_none = optimizer.lr_scheduler_type == Scheduler::constant ||
                        optimizer.lr_scheduler_type == Scheduler::reduce_lr_on_plateau;
  if (!has_none || (!has_steps && !has_ratio)) return;
  const std::string key = has_steps ? "warmup_steps" : "warmup_ratio";
  throw_config_error(
      fmt::format("{} = {} would be ignored", key, write(has_steps ? optimizer.warmup_steps : optimizer.warmup_ratio)),
      fmt::format("{} has no warm-up", type_text(optimizer)),
      fmt::format("set lr_scheduler_type = constant_with_warmup, or {} = 0", key));
}

void check_evaluations(const Config& config) {
  if (config.optimizer.lr_scheduler_type != Scheduler::reduce_lr_on_plateau) return;
  const bool has_files = !config.data.eval_files.empty();
  const bool is_by_steps = config.train.eval_strategy == EvalStrategy::steps;
  if (has_files && config.train.eval_strategy == EvalStrategy::no) {
    throw_config_error(fmt::format("{} has no losses to go by", type_text(config.optimizer)),
                       "`train.eval_strategy = no`",
                       "set train.eval_strategy to steps or epoch, or choose another schedule");
  }
  if (has_files && (!is_by_steps || config.train.eval_interval() > 0)) return;
  throw_config_error(fmt::format("{} has no losses to go by", type_text(config.optimizer)),
                     has_files ? "`train.eval_steps = 0` evaluates at the end alone" : "`data.eval_files` is empty",
                     fmt::format("{}, or choose another schedule",
                                 has_files ? "set train.eval_steps to the steps between two evaluations"
                                           : "set data.eval_files to shards that sft-prepare wrote"));
}

}  // namespace

void check_scheduler(const Config& config) {
  check_kwargs(config.optimizer);
  check_warmup(config);
  check_evaluations(config);
}

}  // namespace sft::config
