// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ten training steps, as numbers to compare.

#include <cstdint>
#include <vector>

#include "equivalence/mesh_table.hpp"
#include "sft/comm/session.hpp"
#include "sft/train/engine.hpp"
#include "support/engine_fixture.hpp"

namespace sft::test {

inline constexpr std::int64_t num_steps = 10;
inline constexpr std::int64_t step_without_target = 4;  ///< its whole batch has none

using Trajectory = std::vector<train::StepResult>;

/// A trajectory as numbers, all exact, to be sent between ranks and stored; and back.
[[nodiscard]] std::vector<double> numbers_of(const Trajectory& trajectory);
[[nodiscard]] Trajectory trajectory_of(const std::vector<double>& numbers);

/// Largest deviation from a baseline over the steps, relative; a step of exact zeros must be met exactly, and NaN is
/// infinitely far.
struct Deviation {
  double loss = 0.0, grad_norm = 0.0;
};
[[nodiscard]] Deviation deviation(const Trajectory& trajectory, const Trajectory& baseline);

/// What is trained, from the seed of its family.
struct Task {
  Family family;
  std::int64_t global_rows;
  std::int64_t num_hidden_layers = 0;    ///< 0: those of the family
  bool use_peft = false;                 ///< adapters alone, without dropout
  std::int64_t num_attention_heads = 0;  ///< 0: those of the family
  std::int64_t intermediate_size = 0;    ///< 0: that of the family

  [[nodiscard]] config::Model model() const;
  [[nodiscard]] bool operator==(const Task&) const = default;
};
[[nodiscard]] inline Task task_of(const MeshCase& mesh_case) {
  return {mesh_case.family, rows_per_step(mesh_case.layout)};
}

/// Trains on `mesh`; of `parallel` all but the sizes counts. Collective over the mesh.
[[nodiscard]] Trajectory train(const Task& task, const config::Parallel& parallel, int accumulation,
                               config::Precision precision, const test::Mesh& mesh, const comm::Session& session);

/// The same with all keys of `config` but those that the task and the mesh give.
[[nodiscard]] Trajectory train(const Task& task, config::Config config, const test::Mesh& mesh,
                               const comm::Session& session);

}  // namespace sft::test
