// SPDX-License-Identifier: Apache-2.0
// What to change where a run does not fit.
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <vector>

#include "sft/core/format.hpp"
#include "sft/planner/search.hpp"

namespace sft::planner {

namespace {

/// Keys that a plan sets.
std::vector<config::Difference> keys_between(const config::ValidConfig& before, const config::ValidConfig& now) {
  constexpr std::array planned{"parallel", "train", "optimizer"};
  std::vector<config::Difference> keys = config::differences(*before, *now);
  std::erase_if(
      keys, [&](const config::Difference& key) { return std::ranges::find(planned, key.section) == planned.end(); });
  return keys;
}

}  // namespace

std::optional<NearbyPlan> nearest_plan(const PlanTask& task, const config::ValidConfig& config) {
  // As many of those with the fewest changes are rehearsed.
  constexpr std::size_t most_rehearsed = 8;
  std::vector<NearbyPlan> fitting;
  for_each_candidate(task, [&](const config::ValidConfig& other) {
    std::optional<Candidate> candidate = fitting_candidate(task, other, 1);
    if (!candidate) return false;
    std::vector<config::Difference> keys = keys_between(config, candidate->config);
    fitting.push_back({std::move(*candidate), std::move(keys)});
    return true;
  });
  std::ranges::stable_sort(fitting, {}, [](const NearbyPlan& plan) { return plan.keys.size(); });
  constexpr int all_ranks = 128;
  std::vector<NearbyPlan> nearest;
  for (NearbyPlan& plan : fitting) {
    if (nearest.size() == most_rehearsed) break;
    if (!nearest.empty() && plan.keys.size() > nearest.front().keys.size()) break;
    std::optional<Candidate> of_ranks = fitting_candidate(task, plan.candidate.config, all_ranks);
    if (!of_ranks) continue;
    plan.candidate.memory = of_ranks->memory;
    plan.candidate.time = plan_candidate_time(task, plan.candidate.config);
    nearest.push_back(std::move(plan));
  }
  if (nearest.empty()) return std::nullopt;
  NearbyPlan best =
      *std::ranges::min_element(nearest, {}, [](const NearbyPlan& plan) { return plan.candidate.time.step_s; });
  best.step_ratio = best.candidate.time.step_s / plan_candidate_time(task, config).step_s;
  return best;
}

std::string describe(const NearbyPlan& plan, const simulator::Hardware& hardware) {
  std::vector<std::string> options;
  for (const config::Difference& key : plan.keys) {
    options.push_back(fmt::format("--{}.{} {}", key.section, key.name, key.now));
  }
  const PlannedMemory& memory = plan.candidate.memory;
  const bool is_gpu = hardware.kind == device::Kind::cuda;
  const std::string cost = plan.step_ratio > 0.99 && plan.step_ratio < 1.01
                               ? "takes as long"
                               : fmt::format("takes {:.2f} times as long", plan.step_ratio);
  return fmt::format("{} (needs {} of {}; by the rates of {} a step {})", fmt::join(options, " "),
                     format_bytes(is_gpu ? memory.device_bytes : memory.node_bytes),
                     format_bytes(is_gpu ? hardware.device_bytes : hardware.node_bytes), hardware.name, cost);
}

}  // namespace sft::planner
