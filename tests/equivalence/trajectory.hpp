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

/// Trains `family` from its seed on `mesh`. Collective over the mesh.
[[nodiscard]] Trajectory train(Family family, std::int64_t global_rows, int accumulation, config::Precision precision,
                               bool reshard_after_forward, const test::Mesh& mesh, const comm::Session& session);

/// What one rank alone does for the cases of this world's size: float32, no accumulation. Each is computed by one rank
/// and given to all. Collective over the world.
class Baselines {
 public:
  explicit Baselines(const comm::Session& session);
  [[nodiscard]] const Trajectory& of(const MeshCase& mesh_case) const;

 private:
  struct Entry {
    Family family;
    std::int64_t global_rows;
    Trajectory trajectory;
  };
  std::vector<Entry> entries_;
};

}  // namespace sft::test
