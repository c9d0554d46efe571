// SPDX-License-Identifier: Apache-2.0
#include "settle_run.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "apps/common/machines.hpp"
#include "machine_of_run.hpp"
#include "planned_run.hpp"
#include "settle_attention.hpp"
#include "sft/core/log.hpp"
#include "sft/device/ledger.hpp"
#include "sft/machine/node.hpp"
#include "sft/plan/async_save.hpp"
#include "sft/plan/hardware.hpp"
#include "sft/plan/memory.hpp"
#include "sft/plan/pieces.hpp"
#include "sft/plan/products.hpp"
#include "sft/plan/rank_plan.hpp"
#include "sft/plan/row_lengths.hpp"
#include "sft/plan/search.hpp"
#include "sft/plan/sp_method.hpp"
#include "sft/plan/start_table.hpp"
#include "sft/plan/step_time.hpp"

namespace sft::apps {

namespace {

/// Ranks on the node that has the fewest. Collective.
int least_ranks_per_node(const comm::Session& session) {
  std::array<std::int64_t, 1> negative{-session.node().size()};
  session.world().max(std::span<std::int64_t>(negative));
  return static_cast<int>(-negative[0]);
}

/// Enters the time of a step on that hardware.
void plan_time(const RunContext& on, const plan::Datasets& datasets, const plan::Hardware& hardware, SettledRun& run) {
  const std::vector<std::int32_t> documents =
      plan::mean_documents(plan::RowLengths::of(datasets.train), run.config->train.per_device_train_batch_size);
  const plan::StepTime time = plan::plan_step_time(run.config, documents, on.place, run.machine, hardware);
  run.step_s = time.step_s;
  run.step_time = plan::describe(time, hardware);
  run.ops = plan::describe_ops(time);
}

/// The nearest way to train on this machine that fits, in words; empty: there is none. On rank 0.
std::string nearest_fitting(const RunContext& on, const config::ValidConfig& config, const plan::Datasets& datasets,
                            const std::string& machine_name, const std::optional<device::OwnMemory>& own) {
  plan::PlanTask task{.base = *config,
                      .fixed = {},
                      .hardware = hardware_of(on, machine_name, own),
                      .max_length = datasets.train.max_length(),
                      .rows_per_step = config->effective_batch_rows(),
                      .lengths = plan::RowLengths::of(datasets.train),
                      .num_threads = machine::num_threads(),
                      .huge_page_bytes = machine::unasked_huge_page_bytes(),
                      .process_bytes = own_bytes(datasets)};
  task.measured_limits = [&](const config::ValidConfig& other) { return plan::measure_limits(other, datasets); };
  const std::optional<plan::NearbyPlan> nearest = plan::nearest_plan(task, config);
  return nearest ? plan::describe(*nearest, task.hardware) : "";
}

}  // namespace

SettledRun settle_run(const RunContext& on, const plan::Datasets& datasets, const std::string& machine_name) {
  const comm::Group& world = on.session.world();
  device::Device& device = on.device;
  const mesh::Place& place = on.place;
  const std::optional<device::OwnMemory> own_memory = device.own_memory();
  const plan::Machine machine = machine_of(on, own_memory);
  const auto plan_ledger = [&](const config::ValidConfig& planned) {
    return plan::plan_ledger(planned, datasets, place, machine, own_bytes(datasets));
  };
  const std::optional<std::size_t> node_bytes = machine::node_memory_bytes();
  const auto choose_save = [&](const config::ValidConfig& of) {
    return plan::choose_async_save(of, plan_ledger, device.kind(), node_bytes, on.session);
  };
  const plan::Fits fits = [&](const config::ValidConfig& of) {
    device::Ledger needed;
    if (of->checkpoint.async) {  // given: refused, if need be, once all else is chosen
      world.agree([&] { needed = plan_ledger(of); });
    } else {
      needed = choose_save(of).planned;
    }
    return plan::fits_memory(needed, device.kind(), node_bytes, own_memory, on.session);
  };
  auto [config, sp_choice] = plan::resolve_sp_method(
      on.config, plan::SpFacts::of(on.config, datasets, least_ranks_per_node(on.session)), fits);
  config = settle_attention(config, datasets.limits(config).tokens, device, world);
  auto [in_pieces, choice_of_pieces] = plan::choose_pieces(config, fits);
  if (!choice_of_pieces.empty()) log_info(choice_of_pieces);
  auto [with_async, save_choice, planned] = choose_save(in_pieces);
  config = std::move(with_async);
  const auto advice = [&, &config = config] { return nearest_fitting(on, config, datasets, machine_name, own_memory); };
  plan::require_node_memory(planned, device.kind(), node_bytes, on.session, advice);
  plan::require_gpu_memory(planned, own_memory, world, advice);
  SettledRun run{.config = config, .machine = machine, .sp_choice = sp_choice, .save_choice = save_choice};
  world.agree([&] {
    if (world.rank() != 0 || machine_name.empty()) return;
    plan_time(on, datasets, hardware_of(on, machine_name, own_memory), run);
  });
  return run;
}

ops::ListedProducts list_products(const SettledRun& run, const data::MicroBatchLimits& limits,
                                  const mesh::Place& place) {
  plan::RankPlan plan(run.config, limits, place, run.machine);
  return plan::list_products(run.config, plan);
}

}  // namespace sft::apps
