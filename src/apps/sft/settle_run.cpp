// SPDX-License-Identifier: Apache-2.0
#include "settle_run.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "machine_of_run.hpp"
#include "planning.hpp"
#include "settle_attention.hpp"
#include "sft/core/log.hpp"
#include "sft/device/ledger.hpp"
#include "sft/machine/node.hpp"
#include "sft/rank/memory.hpp"
#include "sft/rank/products.hpp"
#include "sft/rank/rank_plan.hpp"
#include "sft/rank/settle.hpp"
#include "sft/rank/traffic.hpp"

namespace sft::apps {

namespace {

/// Ranks on the node that has the fewest. Collective.
int least_ranks_per_node(const comm::Session& session) {
  std::array<std::int64_t, 1> negative{-session.node().size()};
  session.world().max(std::span<std::int64_t>(negative));
  return static_cast<int>(-negative[0]);
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
    plan_time(on, datasets, machine_name, own_memory, run);
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
