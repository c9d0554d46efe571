// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/datasets.hpp"

#include <array>
#include <span>
#include <utility>

#include "sft/model/layer_plan.hpp"
#include "sft/rank/run_length.hpp"

namespace sft::rank {

namespace {

/// Which rows a rank reads: all of its plan but how attention is computed over them.
rows::LoaderPlan plan_of_rows(const config::ValidConfig& config, const mesh::Place& place, rows::OrderKind order,
                              std::int64_t first_step, std::int64_t last_step) {
  rows::LoaderPlan plan;
  plan.rows_per_micro_batch = config->train.per_device_train_batch_size;
  plan.micro_batches = config->train.gradient_accumulation_steps;
  plan.data_size = place.data_size();
  plan.data_rank = place.data_rank();
  plan.sp_size = place.size(Axis::sp);
  plan.sp_rank = place.rank(Axis::sp);
  plan.sharing_size = place.size(row_axes);
  plan.sharing_rank = place.rank(row_axes);
  plan.local_multiple = config->parallel.token_slices();
  plan.first_step = first_step;
  plan.last_step = last_step;
  plan.order = order;
  plan.shuffle = config->data.shuffle;
  plan.seed = config->data.seed;
  return plan;
}

rows::LoaderPlan plan_of_eval_rows(const config::ValidConfig& config, const mesh::Place& place,
                                   const Datasets& datasets) {
  rows::LoaderPlan plan = plan_of_rows(config, place, rows::OrderKind::trl, 0, 0);
  plan.micro_batches = 1;
  plan.last_step = rows::StepPositions{plan.order, datasets.eval->num_rows(), plan.rows_per_step()}.steps_per_epoch();
  plan.shuffle = false;
  return plan;
}

/// Which rows a rank reads in all steps of training.
rows::LoaderPlan plan_of_training_rows(const config::ValidConfig& config, const mesh::Place& place,
                                       const Datasets& datasets) {
  const std::int64_t num_rows = datasets.train.num_rows(), last_step = num_steps(config, num_rows, datasets.origin);
  rows::LoaderPlan plan = plan_of_rows(config, place, row_order(config->data, num_rows), 0, last_step);
  plan.origin = datasets.origin;
  return plan;
}

/// Of all steps of training.
rows::LoaderPlan training_plan(const config::ValidConfig& config, const mesh::Place& place, const Datasets& datasets) {
  const std::int64_t num_rows = datasets.train.num_rows();
  return loader_plan(config, place, num_rows, 0, num_steps(config, num_rows, datasets.origin), datasets.limits(config),
                     datasets.origin);
}

}  // namespace

rows::LoaderPlan loader_plan(const config::ValidConfig& config, const mesh::Place& place, std::int64_t num_rows,
                             std::int64_t first_step, std::int64_t last_step, const rows::MicroBatchLimits& limits,
                             const rows::StepOrigin& origin) {
  rows::LoaderPlan plan = plan_of_rows(config, place, row_order(config->data, num_rows), first_step, last_step);
  plan.origin = origin;
  plan.attention_method = config->parallel.attention_method();
  plan.attention_windows = model::attention_windows(config->model);
  plan.max_tokens = limits.tokens;
  return plan;
}

rows::LoaderPlan eval_loader_plan(const config::ValidConfig& config, const mesh::Place& place,
                                  const Datasets& datasets) {
  rows::LoaderPlan plan = plan_of_eval_rows(config, place, datasets);
  plan.attention_method = config->parallel.attention_method();
  plan.attention_windows = model::attention_windows(config->model);
  plan.max_tokens = datasets.limits(config).tokens;
  return plan;
}

rows::MicroBatchLimits measure_limits(const config::ValidConfig& config, const Datasets& datasets) {
  const mesh::Place place(config, 0);
  rows::MicroBatchLimits limits = rows::measure_limits(datasets.train, plan_of_training_rows(config, place, datasets));
  if (datasets.eval) limits |= rows::measure_limits(*datasets.eval, plan_of_eval_rows(config, place, datasets));
  return limits;
}

std::optional<SpChoice> saved_sp(const config::Parallel& now, const config::Parallel& then) {
  const bool is_open = then.sp_method == config::SpMethod::automatic ||
                       (then.sp_method == config::SpMethod::hybrid && then.ulysses_size == 0);
  if (is_open || now.sizes() != then.sizes()) return std::nullopt;
  return SpChoice{then.sp_method, then.attention_method().ulysses_size};
}

void broadcast(rows::StepOrigin& origin, const comm::Group& world) {
  std::array<std::int64_t, 3> numbers{origin.step, origin.rows, origin.batch_rows_then};
  world.broadcast(std::span<std::int64_t>(numbers), 0);
  origin = {.step = numbers[0], .rows = numbers[1], .batch_rows_then = numbers[2]};
}

void keep_needed_rows(const config::ValidConfig& config, const mesh::Place& place, Datasets& datasets) {
  const auto keep = [&](rows::PackedDataset& dataset, const rows::LoaderPlan& plan) {
    const rows::RowColumns needed = rows::columns_needed(dataset, plan);
    rows::RowTable table = dataset.row_table();
    if (!needed.lengths || !place.owns_rows()) table.lengths = {};
    if (!needed.counts || !place.owns_rows()) table.counts = {};
    dataset.hold(std::move(table));
  };
  keep(datasets.train, plan_of_training_rows(config, place, datasets));
  if (datasets.eval) keep(*datasets.eval, plan_of_eval_rows(config, place, datasets));
}

std::size_t row_table_bytes(const Datasets& datasets) {
  const auto bytes_of = [](const rows::RowTable& table) {
    return table.lengths.size() * sizeof(table.lengths.front()) + table.counts.size() * sizeof(table.counts.front());
  };
  return bytes_of(datasets.train.row_table()) + (datasets.eval ? bytes_of(datasets.eval->row_table()) : 0);
}

std::size_t batches_bytes(const config::ValidConfig& config, const mesh::Place& place, const Datasets& datasets) {
  const std::size_t training = rows::loader_bytes(datasets.train, training_plan(config, place, datasets));
  if (!datasets.eval) return training;
  return training + rows::loader_bytes(*datasets.eval, eval_loader_plan(config, place, datasets));
}

}  // namespace sft::rank
