// SPDX-License-Identifier: Apache-2.0
#include "best_model.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "run_files.hpp"
#include "sft/config/values.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"

namespace sft::train {

namespace fs = std::filesystem;

double value_of(config::EvalMetric metric, const EvalResult& result) {
  switch (metric) {
    case config::EvalMetric::mean_token_accuracy:
      return result.mean_token_accuracy;
    case config::EvalMetric::entropy:
      return result.entropy;
    case config::EvalMetric::loss:
      break;
  }
  return result.loss;
}

bool judge(const config::Train& train, const EvalResult& result, std::int64_t step, checkpoint::Decisions& decisions) {
  if (!train.metric_for_best_model) return false;
  const double value = value_of(*train.metric_for_best_model, result);
  const std::optional<double> best = decisions.best_metric;
  const bool is_best = !best || (*train.greater_is_better ? value > *best : value < *best);
  const bool is_improvement = !best || (is_best && std::abs(value - *best) > train.early_stopping_threshold);
  decisions.num_worse_evaluations = is_improvement ? 0 : decisions.num_worse_evaluations + 1;
  if (is_best) {
    decisions.best_metric = value;
    decisions.best_step = step;
  }
  return is_best;
}

bool must_stop_early(const config::Train& train, const checkpoint::Decisions& decisions) {
  return train.early_stopping_patience > 0 && decisions.num_worse_evaluations >= train.early_stopping_patience;
}

namespace {

std::string metric_name(const config::Train& train) { return "eval_" + config::write(*train.metric_for_best_model); }

}  // namespace

std::string describe_early_stop(const config::Train& train, const checkpoint::Decisions& decisions) {
  const double threshold = train.early_stopping_threshold;
  return fmt::format("{} has not improved on {:.5f}, that of step {}, {}for {}", metric_name(train),
                     *decisions.best_metric, decisions.best_step,
                     threshold > 0 ? fmt::format("by more than {} ", threshold) : std::string(),
                     plural(decisions.num_worse_evaluations, "evaluation"));
}

void note_saved(std::int64_t step, const std::string& folder, checkpoint::Decisions& decisions) {
  if (step == decisions.best_step) decisions.best_checkpoint = fs::path(folder).filename().string();
}

std::string find_best_checkpoint(const std::string& output_dir, const std::string& resumed,
                                 const checkpoint::Decisions& saved) {
  if (saved.best_checkpoint.empty()) return "";
  const fs::path folder = folder_beside(resumed) / saved.best_checkpoint;  // a path that is absolute stays what it is
  if (!fs::is_directory(folder)) {
    log_warning(
        fmt::format("the best checkpoint of the run so far, {}, is not there any more: only a better one that "
                    "is still to come can take its place",
                    folder.string()));
    return "";
  }
  std::error_code error;
  return fs::equivalent(folder.parent_path(), output_dir, error) ? folder.filename().string()
                                                                 : fs::absolute(folder).string();
}

std::string best_folder(const std::string& output_dir, const checkpoint::Decisions& decisions) {
  return decisions.best_checkpoint.empty() ? "" : (fs::path(output_dir) / decisions.best_checkpoint).string();
}

std::string describe_best(const config::Train& train, const checkpoint::Decisions& decisions) {
  const std::string name = fs::path(decisions.best_checkpoint).filename().string();
  const std::string metric = fmt::format("{} {:.5f}", metric_name(train), *decisions.best_metric);
  const bool is_best = name == fs::path(checkpoint::path_of("", decisions.best_step)).filename();
  return is_best ? fmt::format("{} ({})", name, metric)
                 : fmt::format("{} (step {} was better, {}, but was not saved)", name, decisions.best_step, metric);
}

}  // namespace sft::train
