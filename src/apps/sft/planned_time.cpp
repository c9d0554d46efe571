// SPDX-License-Identifier: Apache-2.0
// The planner on a run that has begun: the time of a step on this machine, and sizes that would fit.
#include <fmt/core.h>

#include <cstdint>
#include <vector>

#include "apps/common/machines.hpp"
#include "machine_of_run.hpp"
#include "planning.hpp"
#include "sft/core/error.hpp"
#include "sft/machine/node.hpp"
#include "sft/planner/row_lengths.hpp"
#include "sft/planner/search.hpp"
#include "sft/planner/step_time.hpp"
#include "sft/simulator/hardware.hpp"

namespace sft::apps {

namespace {

/// Nodes like those of the run, with `name` at the rates of that machine, else at those of the one that is nearest by
/// kind.
simulator::Hardware hardware_of(const RunContext& on, const std::string& name,
                                const std::optional<device::OwnMemory>& own) {
  const bool is_gpu = on.device.kind() == device::Kind::cuda;
  const int ranks_per_node = on.session.node().size(), num_ranks = on.session.world().size();
  simulator::Hardware hardware = simulator::with_ranks_per_node(machine_named(!name.empty() ? name
                                                                              : is_gpu      ? "h100"
                                                                                            : "cpu"),
                                                                ranks_per_node);
  if ((hardware.kind == device::Kind::cuda) != is_gpu) {
    throw_config_error(fmt::format("--machine {} is another machine", name),
                       is_gpu ? "this run computes on GPUs" : "this run computes on CPUs",
                       "give a file that `sft --check --write_machine FILE` wrote here");
  }
  hardware.num_nodes = (num_ranks + ranks_per_node - 1) / ranks_per_node;
  if (own) hardware.device_bytes = own->total_bytes;
  if (const auto bytes = machine::node_memory_bytes()) hardware.node_bytes = *bytes;
  return hardware;
}

}  // namespace

void plan_time(const RunContext& on, const rank::Datasets& datasets, const std::string& machine_name,
               const std::optional<device::OwnMemory>& own, SettledRun& run) {
  const simulator::Hardware hardware = hardware_of(on, machine_name, own);
  const std::vector<std::int32_t> documents =
      planner::mean_documents(planner::RowLengths::of(datasets.train), run.config->train.per_device_train_batch_size);
  const planner::StepTime time = planner::plan_step_time(run.config, documents, on.place, run.machine, hardware);
  run.step_s = time.step_s;
  run.step_time = planner::describe(time, hardware);
  run.ops = planner::describe_ops(time);
}

std::string nearest_fitting(const RunContext& on, const config::ValidConfig& config, const rank::Datasets& datasets,
                            const std::string& machine_name, const std::optional<device::OwnMemory>& own) {
  planner::PlanTask task{.base = *config,
                         .fixed = {},
                         .hardware = hardware_of(on, machine_name, own),
                         .max_length = datasets.train.max_length(),
                         .rows_per_step = config->effective_batch_rows(),
                         .lengths = planner::RowLengths::of(datasets.train),
                         .num_threads = machine::num_threads(),
                         .huge_page_bytes = machine::unasked_huge_page_bytes(),
                         .process_bytes = own_bytes(datasets)};
  task.measured_limits = [&](const config::ValidConfig& other) { return rank::measure_limits(other, datasets); };
  const std::optional<planner::NearbyPlan> nearest = planner::nearest_plan(task, config);
  return nearest ? planner::describe(*nearest, task.hardware) : "";
}

}  // namespace sft::apps
