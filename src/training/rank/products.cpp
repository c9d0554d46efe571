// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/products.hpp"

#include <algorithm>
#include <memory>

#include "sft/comm/traffic.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"
#include "sft/rank/rehearsal.hpp"
#include "sft/rank/rehearsal_tools.hpp"

namespace sft::rank {

namespace {

/// The micro-batches of a step that have different products, on a backend that notes them; `use` is given it.
template <class Use>
auto rehearse(const config::ValidConfig& config, RankPlan& plan, Work work, const Use& use) {
  const std::unique_ptr<device::Device> device = device::make_null_device();
  comm::TrafficCounter counter;
  Rehearsal rehearsal(config, plan, documents_of(plan.limits), *device, counter, RehearsalTools(work));
  rehearsal.begin_step();
  constexpr std::int64_t num_different = 2;  // later micro-batches add their gradients to those of the first
  for (std::int64_t i = 0; i < std::min(rehearsal.num_played(), num_different); ++i) rehearsal.play_micro_batch();
  return use(*rehearsal.workers().ops);
}

}  // namespace

std::size_t plan_products(const config::ValidConfig& config, RankPlan& plan) {
  if (plan.machine.kind != device::Kind::cpu || plan.limits.tokens == 0) return 0;
  return rehearse(config, plan, Work::noted, [&](const ops::Backend& counter) {
    return ops::products_bytes(counter, {.num_threads = plan.machine.num_threads,
                                         .num_lengths = plan.limits.num_lengths,
                                         .most_expert_rows = plan.sizes.experts.most_rows_of_one()});
  });
}

std::size_t plan_products(const config::ValidConfig& config, const rows::MicroBatchLimits& limits,
                          const mesh::Place& place, const Machine& machine) {
  RankPlan plan(config, limits, place, machine);
  return plan_products(config, plan);
}

ops::ListedProducts list_products(const config::ValidConfig& config, RankPlan& plan) {
  if (plan.limits.tokens == 0) return {};
  return rehearse(config, plan, Work::listed, [](const ops::Backend& list) { return ops::listed_products(list); });
}

}  // namespace sft::rank
