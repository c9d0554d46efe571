// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which evaluation was the best, which checkpoint has its weights, and whether to stop because evaluations get no
// better: the rules of transformers' Trainer and EarlyStoppingCallback (5.23). Pure, but for judge()'s file names.

#include <cstdint>
#include <string>

#include "evaluation.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/config/config.hpp"

namespace sft::train {

/// The number of an evaluation that `metric` names.
[[nodiscard]] double value_of(config::EvalMetric metric, const EvalResult& result);

/// Takes an evaluation of the weights after `step` into `decisions`, without a metric nothing. Returns whether it is
/// the best so far: the first one, or one strictly better than the best before it. Early stopping counts it as worse
/// unless it is better than that best by more than the threshold, and begins anew otherwise.
[[nodiscard]] bool judge(const config::Train& train, const EvalResult& result, std::int64_t step,
                         checkpoint::Decisions& decisions);

/// Whether early stopping ends the run.
[[nodiscard]] bool must_stop_early(const config::Train& train, const checkpoint::Decisions& decisions);

/// "eval_loss has not improved on 1.2345 of step 40 by more than 0.01 for 3 evaluations"
[[nodiscard]] std::string describe_early_stop(const config::Train& train, const checkpoint::Decisions& decisions);

/// A checkpoint of `step` is about to be written to, or lies in, `folder`: where its weights are the best, it is what
/// the end of the run comes back to. Of best weights that were not saved, the checkpoint before stays the best one.
void note_saved(std::int64_t step, const std::string& folder, checkpoint::Decisions& decisions);

/// The folder of the best checkpoint of a run that goes on in `output_dir` from the checkpoint `resumed`, to be kept in
/// its own checkpoints: its name there, else its path. Empty where there is none, or it is not there any more, which a
/// warning says.
[[nodiscard]] std::string find_best_checkpoint(const std::string& output_dir, const std::string& resumed,
                                               const checkpoint::Decisions& saved);

/// Where the best checkpoint lies; empty: there is none.
[[nodiscard]] std::string best_folder(const std::string& output_dir, const checkpoint::Decisions& decisions);

/// "checkpoint-000040 (eval_loss 1.2345)". Where better weights were not saved, it says so in place of the number.
[[nodiscard]] std::string describe_best(const config::Train& train, const checkpoint::Decisions& decisions);

}  // namespace sft::train
