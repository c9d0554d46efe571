// SPDX-License-Identifier: Apache-2.0
#include "evaluation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <span>
#include <vector>

#include "batches.hpp"
#include "not_finite.hpp"
#include "rank_state.hpp"

namespace sft::train {

namespace {

EvalSums sum_over(const comm::Group& world, const EvalSums& mine) {
  std::array<double, 6> values{mine.weighted_nll, mine.weight,     mine.num_right,
                               mine.entropy,      mine.num_tokens, mine.num_target_tokens};
  world.sum(std::span<double>(values));
  return {values[0], values[1], values[2], values[3], values[4], values[5]};
}

}  // namespace

Evaluation evaluate(Engine& engine, const rows::PackedDataset& dataset, const rows::LoaderPlan& plan, std::int64_t step,
                    const mesh::Groups& groups,
                    const std::function<int(std::int64_t done, std::int64_t all)>& before_batch) {
  const comm::Group& world = groups.world;
  Batches batches(dataset, plan, groups.rows);
  EvalSums sums;
  std::vector<std::int64_t> bad_rows;  // of this rank's first batch whose loss is not finite
  for (std::int64_t i = plan.first_step; i < plan.last_step; ++i) {
    rows::MicroBatch batch;
    const std::exception_ptr failure = batches.next(batch);
    const int signal = before_batch(i - plan.first_step, plan.last_step - plan.first_step);
    const RankState ranks = exchange({signal, failure != nullptr}, world);
    if (ranks.failed) {
      world.agree([&] {
        if (failure) std::rethrow_exception(failure);
      });
    }
    if (ranks.signal != 0) return {.signal = ranks.signal, .result = {}};
    const EvalSums part = engine.evaluate(batch);
    if (!std::isfinite(part.weighted_nll) && bad_rows.empty()) bad_rows = batch.rows;
    sums += part;
  }

  const EvalSums all = sum_over(world, sums);
  const double loss = all.weight > 0 ? all.weighted_nll / all.weight : 0.0;
  if (!std::isfinite(loss)) throw_eval_not_finite({step, loss, sums.weighted_nll, bad_rows}, world);
  const double num_targets = std::max(all.num_target_tokens, 1.0);
  return {.signal = 0,
          .result = {.loss = loss,
                     .mean_token_accuracy = all.num_right / num_targets,
                     .entropy = all.entropy / num_targets,
                     .num_target_tokens = static_cast<std::int64_t>(all.num_target_tokens)}};
}

}  // namespace sft::train
