// SPDX-License-Identifier: Apache-2.0
#include "settle_run.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "machine_of_run.hpp"
#include "planned_run.hpp"
#include "settle_attention.hpp"
#include "sft/core/log.hpp"
#include "sft/device/ledger.hpp"
#include "sft/machine/node.hpp"
#include "sft/planner/row_lengths.hpp"
#include "sft/planner/search.hpp"
#include "sft/planner/step_time.hpp"
#include "sft/rank/memory.hpp"
#include "sft/rank/products.hpp"
#include "sft/rank/rank_plan.hpp"
#include "sft/rank/settle.hpp"
#include "sft/rank/traffic.hpp"
#include "sft/simulator/hardware.hpp"

namespace sft::apps {

namespace {

/// Ranks on the node that has the fewest. Collective.
int least_ranks_per_node(const comm::Session& session) {
  std::array<std::int64_t, 1> negative{-session.node().size()};
  session.world().max(std::span<std::int64_t>(negative));
  return static_cast<int>(-negative[0]);
}

/// Enters the time of a step on that hardware.
void plan_time(const RunContext& on, const rank::Datasets& datasets, const simulator::Hardware& hardware,
               SettledRun& run) {
  const std::vector<std::int32_t> documents =
      planner::mean_documents(planner::RowLengths::of(datasets.train), run.config->train.per_device_train_batch_size);
  const planner::StepTime time = planner::plan_step_time(run.config, documents, on.place, run.machine, hardware);
  run.step_s = time.step_s;
  run.step_time = planner::describe(time, hardware);
  run.ops = planner::describe_ops(time);
}

/// The nearest way to train on this machine that fits, in words; empty: there is none. On rank 0.
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

}  // namespace

SettledRun settle_run(const RunContext& on, const rank::Datasets& datasets, const std::string& machine_name) {
  const comm::Group& world = on.session.world();
  device::Device& device = on.device;
  const mesh::Place& place = on.place;
  const std::optional<device::OwnMemory> own_memory = device.own_memory();
  const rank::Machine machine = machine_of(on, own_memory);
  const auto plan_ledger = [&](const config::ValidConfig& planned) {
    return rank::plan_ledger(planned, datasets, place, machine, own_bytes(datasets));
  };
  const std::optional<std::size_t> node_bytes = machine::node_memory_bytes();
  const auto choose_save = [&](const config::ValidConfig& of) {
    return rank::choose_async_save(of, plan_ledger, device.kind(), node_bytes, on.session);
  };
  const rank::Fits fits = [&](const config::ValidConfig& of) {
    device::Ledger needed;
    if (of->checkpoint.async) {  // given: refused, if need be, once all else is chosen
      world.agree([&] { needed = plan_ledger(of); });
    } else {
      needed = choose_save(of).planned;
    }
    return rank::fits_memory(needed, device.kind(), node_bytes, own_memory, on.session);
  };
  const auto settle_kernels = [&](const config::ValidConfig& of) {
    return settle_attention(of, datasets.limits(of).tokens, device, world);
  };
  const rank::Settled settled =
      rank::settle(on.config, {.sp = rank::SpFacts::of(on.config, datasets, least_ranks_per_node(on.session)),
                               .fits = fits,
                               .settle_attention = settle_kernels,
                               .choose_save = choose_save});
  const config::ValidConfig& config = settled.config;
  if (!settled.why_pieces.empty()) log_info(settled.why_pieces);
  const auto advice = [&] { return nearest_fitting(on, config, datasets, machine_name, own_memory); };
  rank::require_node_memory(settled.planned, device.kind(), node_bytes, on.session, advice);
  rank::require_gpu_memory(settled.planned, own_memory, world, advice);
  SettledRun run{.config = config, .machine = machine, .sp_choice = settled.why_sp, .save_choice = settled.why_save};
  world.agree([&] {
    if (world.rank() != 0 || machine_name.empty()) return;
    plan_time(on, datasets, hardware_of(on, machine_name, own_memory), run);
  });
  world.agree([&] {
    const rows::MicroBatchLimits limits = datasets.limits(config);
    run.product_bytes = rank::plan_products(config, limits, place, machine);
    run.traffic = rank::plan_traffic(config, limits, place, machine);
  });
  return run;
}

ops::ListedProducts list_products(const SettledRun& run, const rows::MicroBatchLimits& limits,
                                  const mesh::Place& place) {
  rank::RankPlan plan(run.config, limits, place, run.machine);
  return rank::list_products(run.config, plan);
}

}  // namespace sft::apps
