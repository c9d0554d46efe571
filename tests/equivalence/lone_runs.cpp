// SPDX-License-Identifier: Apache-2.0
#include "equivalence/lone_runs.hpp"

#include <algorithm>
#include <functional>

#include "sft/core/ensure.hpp"
#include "support/by_turns.hpp"

namespace sft::test {

void LoneRuns::add(const Task& task, const std::string& name, const config::Config& config) {
  if (find(task, name) == nullptr) runs_.push_back({task, name, config, {}});
}

void LoneRuns::train(const comm::Session& session) {
  std::vector<Run*> lacking;
  for (Run& run : runs_) {
    if (run.trajectory.empty()) lacking.push_back(&run);
  }
  std::vector<std::function<std::vector<double>()>> works;
  for (const Run* run : lacking) {
    works.emplace_back([run, &session] {
      return numbers_of(test::train(run->task, run->config, make_lone_mesh(run->task.model()), session));
    });
  }
  const std::vector<std::vector<double>> results = by_turns(session.world(), works);
  for (std::size_t i = 0; i < lacking.size(); ++i) lacking[i]->trajectory = trajectory_of(results[i]);
}

const Trajectory& LoneRuns::of(const Task& task, const std::string& name) const {
  const Run* run = find(task, name);
  SFT_ENSURE(run != nullptr && !run->trajectory.empty(), "a run that was added and trained");
  return run->trajectory;
}

const LoneRuns::Run* LoneRuns::find(const Task& task, const std::string& name) const {
  const auto found = std::ranges::find_if(runs_, [&](const Run& run) { return run.task == task && run.name == name; });
  return found == runs_.end() ? nullptr : &*found;
}

}  // namespace sft::test
