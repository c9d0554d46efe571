// SPDX-License-Identifier: Apache-2.0
#include "equivalence/trajectory.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sft::test {
namespace {

constexpr std::int64_t max_length = 96;  // cuts into 2 x 2, 2 x 3, 2 x 4 and 2 x 8 chunks
constexpr double learning_rate = 3e-3;

std::vector<rows::Row> rows_of_step(std::int64_t step, std::int64_t num_rows) {
  std::vector<rows::Row> rows = make_awkward_rows(num_rows, max_length, static_cast<std::uint64_t>(step));
  if (step == step_without_target) {
    for (rows::Row& row : rows) std::ranges::fill(row.loss_weight, 0.0f);
  }
  return rows;
}

/// With accumulation, activations are computed again too, in the way of the family: so every way meets every axis.
void set_activations(Family family, int accumulation, config::Train& train) {
  if (accumulation == 1) return;
  using Checkpointing = config::ActivationCheckpointing;
  train.activation_checkpointing = family == Family::qwen3 ? Checkpointing::selective : Checkpointing::full;
  train.mlp_tile_tokens = family == Family::qwen2 ? 0 : 7;
}

double relative(double value, double baseline) {
  if (value == baseline) return 0.0;
  const double distance = std::abs(value - baseline) / std::abs(baseline);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

constexpr std::size_t numbers_per_step = 7;

}  // namespace

std::vector<double> numbers_of(const Trajectory& trajectory) {
  std::vector<double> numbers;
  for (const train::StepResult& r : trajectory) {
    numbers.insert(numbers.end(),
                   {r.loss, r.grad_norm, r.mean_token_accuracy, r.entropy, static_cast<double>(r.num_tokens),
                    static_cast<double>(r.num_target_tokens), r.model_flops});
  }
  return numbers;
}

Trajectory trajectory_of(const std::vector<double>& numbers) {
  Trajectory trajectory;
  for (std::size_t i = 0; i < numbers.size(); i += numbers_per_step) {
    const double* v = &numbers[i];
    trajectory.push_back(
        {v[0], v[1], v[2], v[3], static_cast<std::int64_t>(v[4]), static_cast<std::int64_t>(v[5]), v[6]});
  }
  return trajectory;
}

Deviation deviation(const Trajectory& trajectory, const Trajectory& baseline) {
  Deviation worst;
  for (std::size_t step = 0; step < baseline.size(); ++step) {
    worst.loss = std::max(worst.loss, relative(trajectory[step].loss, baseline[step].loss));
    worst.grad_norm = std::max(worst.grad_norm, relative(trajectory[step].grad_norm, baseline[step].grad_norm));
  }
  return worst;
}

config::Model Task::model() const {
  config::Model result = model_of(family);
  if (num_hidden_layers > 0) result.num_hidden_layers = num_hidden_layers;
  if (num_attention_heads > 0) result.num_attention_heads = num_attention_heads;
  if (intermediate_size > 0) result.intermediate_size = intermediate_size;
  return result;
}

Trajectory train(const Task& task, const config::Parallel& parallel, int accumulation, config::Precision precision,
                 const test::Mesh& mesh, const comm::Session& session) {
  config::Config config;
  config.parallel = parallel;
  config.train.precision = precision;
  config.train.gradient_accumulation_steps = accumulation;
  set_activations(task.family, accumulation, config.train);
  return train(task, config, mesh, session);
}

Trajectory train(const Task& task, config::Config config, const test::Mesh& mesh, const comm::Session& session) {
  config.model = task.model();
  config.lora.use_peft = task.use_peft;
  config.lora.lora_dropout = 0.0;
  config.train.per_device_train_batch_size =
      task.global_rows / (mesh.place.data_size() * config.train.gradient_accumulation_steps);
  config.optimizer.weight_decay = 0.1;
  // AdamW divides by |gradient| + epsilon: at the default 1e-8 an element whose gradient is near zero moves by rounding
  // alone, as much as any other, and one rank in another order of summation is 1e-4 away after ten steps.
  config.optimizer.adam_epsilon = 1e-6;
  config.optimizer.max_grad_norm = 1.0;
  EngineFixture fixture(config, max_length, mesh, session);
  fixture.engine().initialize();
  Trajectory trajectory;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    trajectory.push_back(fixture.step(rows_of_step(step, task.global_rows), step, learning_rate));
  }
  return trajectory;
}

}  // namespace sft::test
