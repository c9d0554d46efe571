// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string>

#include "config/checks.hpp"
#include "config/refusals.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

const char* const set_files =
    "set data.eval_files to shards that sft-prepare wrote (sft-launch makes them with --eval_split 0.05), or leave the "
    "key out";

/// Evaluations that a key asks for or needs, and that there are none of.
void check_data_of(const Config& config, const std::string& key) {
  if (config.data.eval_files.empty()) {
    throw_config_error(fmt::format("`{}` has no data", key), "`data.eval_files` is empty", set_files);
  }
}

/// A key that decides by evaluations, which must come during the run.
void check_comes_by(const Config& config, const std::string& key) {
  check_data_of(config, key);
  const Train& train = config.train;
  const bool is_by_steps = train.eval_strategy == EvalStrategy::steps;
  if (train.eval_strategy != EvalStrategy::no && !(is_by_steps && train.eval_interval() == 0)) return;
  throw_config_error(fmt::format("`{}` has no evaluations to go by", key),
                     is_by_steps ? "`train.eval_steps = 0` evaluates at the end alone" : "`train.eval_strategy = no`",
                     is_by_steps ? "set train.eval_steps to the steps between two evaluations, or leave the key out"
                                 : "set train.eval_strategy to steps or epoch, or leave the key out");
}

/// The best checkpoint is one that was evaluated and saved: saves come with evaluations.
void check_best_is_saved(const Config& config) {
  const std::string key = "train.load_best_model_at_end = true";
  check_comes_by(config, key);
  const Train& train = config.train;
  const Checkpoint& checkpoint = config.checkpoint;
  if (checkpoint.save_strategy == SaveStrategy::best) return;
  const std::string eval_text = write(train.eval_strategy), save_text = write(checkpoint.save_strategy);
  if (eval_text != save_text) {
    throw_config_error(fmt::format("`{}` needs evaluations and checkpoints of the same steps", key),
                       fmt::format("train.eval_strategy = {}, but checkpoint.save_strategy = {}", eval_text, save_text),
                       fmt::format("set checkpoint.save_strategy to {} or best", eval_text));
  }
  const std::int64_t interval = train.eval_interval();
  if (train.eval_strategy != EvalStrategy::steps ||
      (checkpoint.save_steps > 0 && checkpoint.save_steps % interval == 0)) {
    return;
  }
  throw_config_error(
      fmt::format("`{}` needs an evaluation with every checkpoint", key),
      checkpoint.save_steps == 0
          ? "`checkpoint.save_steps = 0` saves at the end alone"
          : fmt::format("checkpoint.save_steps = {} is no multiple of the {} steps between two evaluations",
                        checkpoint.save_steps, interval),
      fmt::format("set checkpoint.save_steps to a multiple of {}, or checkpoint.save_strategy = best", interval));
}

}  // namespace

void derive_metric(Config& config) {
  Train& train = config.train;
  const bool is_needed =
      train.load_best_model_at_end || config.optimizer.lr_scheduler_type == Scheduler::reduce_lr_on_plateau;
  if (is_needed && !train.metric_for_best_model) train.metric_for_best_model = EvalMetric::loss;
  if (train.metric_for_best_model && !train.greater_is_better) {
    train.greater_is_better = !write(*train.metric_for_best_model).ends_with("loss");
  }
}

void check_evaluation(const Config& config) {
  const Train& train = config.train;
  Refusals refusals;
  refusals.require(config, train.early_stopping_patience >= 0, "train.early_stopping_patience", "0 (never) or more");
  refusals.require(config, train.early_stopping_threshold >= 0, "train.early_stopping_threshold", "0 or more");
  refusals.throw_if_any();
  if (train.eval_on_start) check_data_of(config, "train.eval_on_start = true");
  if (train.eval_strategy == EvalStrategy::epoch) check_data_of(config, "train.eval_strategy = epoch");
  if (train.eval_steps > 0 && train.eval_strategy == EvalStrategy::steps) {
    check_data_of(config, fmt::format("train.eval_steps = {}", train.eval_steps));
  }
  if (train.load_best_model_at_end) check_best_is_saved(config);
  if (config.checkpoint.save_strategy == SaveStrategy::best) check_comes_by(config, "checkpoint.save_strategy = best");
  const std::string patience = fmt::format("train.early_stopping_patience = {}", train.early_stopping_patience);
  if (train.early_stopping_patience > 0) check_comes_by(config, patience);
  const bool is_best_wanted =
      config.checkpoint.save_strategy == SaveStrategy::best || train.early_stopping_patience > 0;
  if (!is_best_wanted || train.metric_for_best_model) return;
  throw_config_error(
      fmt::format("`{}` has no metric to go by",
                  train.early_stopping_patience > 0 ? patience : std::string("checkpoint.save_strategy = best")),
      "`train.metric_for_best_model` is none", "set metric_for_best_model = loss, or load_best_model_at_end = true");
}

void check_steps_that_fail(const Config& config) {
  const Train& train = config.train;
  Refusals refusals;
  refusals.require(config, train.nan_skip_limit >= 1, "train.nan_skip_limit", "1 or more");
  refusals.require(config, train.loss_watchdog_threshold >= 0, "train.loss_watchdog_threshold", "0 (never) or above");
  refusals.require(config, train.loss_watchdog_patience >= 1, "train.loss_watchdog_patience", "1 or more");
  refusals.throw_if_any();
}

}  // namespace sft::config
