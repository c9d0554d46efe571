// SPDX-License-Identifier: Apache-2.0
#include "sft/plan/products.hpp"

#include <algorithm>
#include <memory>

#include "plan/rehearsal.hpp"
#include "sft/comm/traffic.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"

namespace sft::plan {

std::size_t plan_products(const config::ValidConfig& config, const data::MicroBatchLimits& limits,
                          const mesh::Place& place, const Machine& machine) {
  if (machine.kind != device::Kind::cpu || limits.tokens == 0) return 0;
  const std::unique_ptr<device::Device> device = device::make_null_device();
  comm::TrafficCounter counter;
  Rehearsal rehearsal(config, documents_of(limits), place, machine, *device, counter, Work::noted);
  rehearsal.begin_step();
  constexpr std::int64_t num_different = 2;  // later micro-batches add their gradients to those of the first
  for (std::int64_t i = 0; i < std::min(rehearsal.num_played(), num_different); ++i) rehearsal.play_micro_batch();
  return ops::products_bytes(*rehearsal.workers().ops, {.num_threads = machine.num_threads,
                                                        .num_lengths = limits.num_lengths,
                                                        .most_expert_rows = rehearsal.plan().sizes.most_expert_rows()});
}

}  // namespace sft::plan
