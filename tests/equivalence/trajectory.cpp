// SPDX-License-Identifier: Apache-2.0
#include "equivalence/trajectory.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace sft::test {
namespace {

constexpr std::int64_t max_length = 96;  // cuts into 2 x 2, 2 x 3, 2 x 4 and 2 x 8 chunks
constexpr double learning_rate = 3e-3;

std::vector<data::Row> rows_of_step(std::int64_t step, std::int64_t num_rows) {
  std::vector<data::Row> rows = make_awkward_rows(num_rows, max_length, static_cast<std::uint64_t>(step));
  if (step == step_without_target) {
    for (data::Row& row : rows) std::ranges::fill(row.loss_weight, 0.0f);
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

/// A result as doubles, all exact, to be sent between ranks.
std::array<double, 7> pack(const train::StepResult& r) {
  return {r.loss,
          r.grad_norm,
          r.mean_token_accuracy,
          r.entropy,
          static_cast<double>(r.num_tokens),
          static_cast<double>(r.num_target_tokens),
          r.model_flops};
}
train::StepResult unpack(const std::array<double, 7>& v) {
  return {v[0], v[1], v[2], v[3], static_cast<std::int64_t>(v[4]), static_cast<std::int64_t>(v[5]), v[6]};
}

}  // namespace

Trajectory train(Family family, std::int64_t global_rows, int accumulation, config::Precision precision,
                 bool reshard_after_forward, const test::Mesh& mesh, const comm::Session& session) {
  config::Config config;
  config.model = model_of(family);
  config.parallel.reshard_after_forward = reshard_after_forward;
  config.train.precision = precision;
  config.train.gradient_accumulation_steps = accumulation;
  config.train.per_device_train_batch_size = global_rows / (mesh.place.data_size() * accumulation);
  set_activations(family, accumulation, config.train);
  config.optimizer.weight_decay = 0.1;
  config.optimizer.max_grad_norm = 1.0;
  EngineFixture fixture(config, max_length, mesh, session);
  fixture.engine().initialize();
  Trajectory trajectory;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    trajectory.push_back(fixture.step(rows_of_step(step, global_rows), step, learning_rate));
  }
  return trajectory;
}

Baselines::Baselines(const comm::Session& session) {
  const comm::Group& world = session.world();
  for (const MeshCase& mesh_case : mesh_table) {
    const Entry entry{mesh_case.family, rows_per_step(mesh_case.layout), {}};
    const auto is_same = [&](const Entry& other) {
      return other.family == entry.family && other.global_rows == entry.global_rows;
    };
    if (mesh_case.layout.size() == world.size() && std::ranges::none_of(entries_, is_same)) entries_.push_back(entry);
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (static_cast<int>(i) % world.size() != world.rank()) continue;
    const test::Mesh lone = make_lone_mesh(model_of(entries_[i].family));
    entries_[i].trajectory =
        train(entries_[i].family, entries_[i].global_rows, 1, config::Precision::fp32, true, lone, session);
  }
  for (Entry& entry : entries_) {
    const bool is_mine = !entry.trajectory.empty();
    entry.trajectory.resize(num_steps);
    for (train::StepResult& result : entry.trajectory) {
      std::array<double, 7> numbers = is_mine ? pack(result) : std::array<double, 7>{};
      world.sum(std::span<double>(numbers));
      result = unpack(numbers);
    }
  }
}

const Trajectory& Baselines::of(const MeshCase& mesh_case) const {
  for (const Entry& entry : entries_) {
    if (entry.family == mesh_case.family && entry.global_rows == rows_per_step(mesh_case.layout)) {
      return entry.trajectory;
    }
  }
  throw std::logic_error("no baseline for this mesh");
}

}  // namespace sft::test
