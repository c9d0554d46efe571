// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs of one rank alone, for all meshes to be compared with.

#include <string>
#include <vector>

#include "equivalence/trajectory.hpp"

namespace sft::test {

/// Trajectories of one rank: each is computed by one of the ranks, and given to all.
class LoneRuns {
 public:
  /// What `config` makes of `task` will be known as `name`. One of the same task and name is the same run.
  void add(const Task& task, const std::string& name, const config::Config& config);
  /// Trains all that were added since it was called last. Collective over the world.
  void train(const comm::Session& session);
  /// Of one that was trained.
  [[nodiscard]] const Trajectory& of(const Task& task, const std::string& name) const;

 private:
  struct Run {
    Task task;
    std::string name;
    config::Config config;
    Trajectory trajectory;
  };
  [[nodiscard]] const Run* find(const Task& task, const std::string& name) const;

  std::vector<Run> runs_;
};

}  // namespace sft::test
