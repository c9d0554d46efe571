// SPDX-License-Identifier: Apache-2.0
#include "sft/plan/datasets.hpp"

#include "sft/plan/run_length.hpp"

namespace sft::plan {

namespace {

/// Which rows a rank reads: all of its plan but how attention is computed over them.
data::LoaderPlan plan_of_rows(const config::ValidConfig& config, const mesh::Place& place, data::OrderKind order,
                              std::int64_t first_step, std::int64_t last_step) {
  data::LoaderPlan plan;
  plan.rows_per_micro_batch = config->train.per_device_train_batch_size;
  plan.micro_batches = config->train.gradient_accumulation_steps;
  plan.data_size = place.data_size();
  plan.data_rank = place.data_rank();
  plan.sp_size = place.size(Axis::sp);
  plan.sp_rank = place.rank(Axis::sp);
  plan.local_multiple = config->parallel.token_slices();
  plan.first_step = first_step;
  plan.last_step = last_step;
  plan.order = order;
  plan.shuffle = config->data.shuffle;
  plan.seed = config->data.seed;
  return plan;
}

data::LoaderPlan plan_of_eval_rows(const config::ValidConfig& config, const mesh::Place& place,
                                   const Datasets& datasets) {
  data::LoaderPlan plan = plan_of_rows(config, place, data::OrderKind::trl, 0, 0);
  plan.micro_batches = 1;
  plan.last_step = data::StepPositions{plan.order, datasets.eval->num_rows(), plan.rows_per_step()}.steps_per_epoch();
  plan.shuffle = false;
  return plan;
}

}  // namespace

data::LoaderPlan loader_plan(const config::ValidConfig& config, const mesh::Place& place, std::int64_t num_rows,
                             std::int64_t first_step, std::int64_t last_step) {
  data::LoaderPlan plan = plan_of_rows(config, place, row_order(config->data, num_rows), first_step, last_step);
  plan.attention_method = config->parallel.attention_method();
  return plan;
}

data::LoaderPlan eval_loader_plan(const config::ValidConfig& config, const mesh::Place& place,
                                  const Datasets& datasets) {
  data::LoaderPlan plan = plan_of_eval_rows(config, place, datasets);
  plan.attention_method = config->parallel.attention_method();
  return plan;
}

data::MicroBatchLimits measure_limits(const config::ValidConfig& config, const Datasets& datasets) {
  const mesh::Place place(config, 0);
  const std::int64_t num_rows = datasets.train.num_rows(), last_step = num_steps(config, num_rows);
  const data::LoaderPlan plan = plan_of_rows(config, place, row_order(config->data, num_rows), 0, last_step);
  data::MicroBatchLimits limits = data::measure_limits(datasets.train, plan);
  if (datasets.eval) limits |= data::measure_limits(*datasets.eval, plan_of_eval_rows(config, place, datasets));
  return limits;
}

std::size_t batches_bytes(const config::ValidConfig& config, const mesh::Place& place, const Datasets& datasets) {
  const std::int64_t num_rows = datasets.train.num_rows(), last_step = num_steps(config, num_rows);
  data::LoaderPlan plan = loader_plan(config, place, num_rows, 0, last_step);
  plan.max_tokens = datasets.limits(config).tokens;
  const std::size_t training = data::loader_bytes(datasets.train, plan);
  if (!datasets.eval) return training;
  data::LoaderPlan eval_plan = eval_loader_plan(config, place, datasets);
  eval_plan.max_tokens = plan.max_tokens;
  return training + data::loader_bytes(*datasets.eval, eval_plan);
}

}  // namespace sft::plan
