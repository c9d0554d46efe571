// SPDX-License-Identifier: Apache-2.0
#pragma once
// One evaluation: the forward pass over all rows of a data set.

#include <cstdint>
#include <functional>

#include "sft/mesh/groups.hpp"
#include "sft/rows/loader.hpp"
#include "sft/train/engine.hpp"

namespace sft::train {

/// Over all rows and all ranks; the same on every rank.
struct EvalResult {
  double loss = 0.0;  ///< sum w nll / sum w over the data set; 0 without a target
  double mean_token_accuracy = 0.0;
  double entropy = 0.0;  ///< of the predictions, mean over target tokens, nats
  std::int64_t num_target_tokens = 0;
};

struct Evaluation {
  int signal = 0;  ///< that cut it short on some rank; then there is no result
  EvalResult result;
};

/// Evaluates the weights of `engine` on the steps of `plan`, which is that of eval_loader_plan. `before_batch` is
/// called on every rank with the number of batches done and of all, and returns a signal to stop at, or 0. `step`:
/// steps that the weights were trained for, for errors. Collective over the world. Throws, on every rank, the data
/// Error of rows that cannot be read, and a numerical Error when the loss is NaN or Inf.
[[nodiscard]] Evaluation evaluate(Engine& engine, const rows::PackedDataset& dataset, const rows::LoaderPlan& plan,
                                  std::int64_t step, const mesh::Groups& groups,
                                  const std::function<int(std::int64_t done, std::int64_t all)>& before_batch);

}  // namespace sft::train
