// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one rank alone does, for all meshes to be compared with.

#include <vector>

#include "equivalence/trajectory.hpp"

namespace sft::test {

/// Trajectories of one rank: float32, no accumulation. Each is computed by one rank, given to all, and kept for the
/// next run of this program in the file that SFT_BASELINES names. Collective over the world.
class Baselines {
 public:
  Baselines(const std::vector<Task>& tasks, const comm::Session& session);
  [[nodiscard]] const Trajectory& of(const Task& task) const;

 private:
  struct Entry {
    Task task;
    Trajectory trajectory;
  };
  std::vector<Entry> entries_;
};

}  // namespace sft::test
