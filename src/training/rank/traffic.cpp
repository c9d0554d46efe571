// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/traffic.hpp"

#include <fmt/format.h>
#include <memory>

#include "sft/core/format.hpp"
#include "sft/device/factory.hpp"
#include "sft/rank/rehearsal.hpp"
#include "sft/rank/rehearsal_tools.hpp"

namespace sft::rank {

std::vector<comm::SentBytes> plan_traffic(const config::ValidConfig& config, const rows::MicroBatchLimits& limits,
                                          const mesh::Place& place, const Machine& machine) {
  return plan_traffic(config, documents_of(limits), place, machine);
}

std::vector<comm::SentBytes> plan_traffic(const config::ValidConfig& config, const std::vector<std::int32_t>& documents,
                                          const mesh::Place& place, const Machine& machine) {
  const std::unique_ptr<device::Device> device = device::make_null_device();
  comm::TrafficCounter counter;
  RankPlan plan(config, limits_of(documents), place, machine);
  Rehearsal rehearsal(config, plan, documents, *device, counter, RehearsalTools(Work::counted));
  rehearsal.begin_step();
  std::vector<comm::SentBytes> middle;
  for (std::int64_t i = 0; i < rehearsal.num_played(); ++i) {
    const auto before = std::vector<comm::SentBytes>(counter.sent());
    rehearsal.play_micro_batch();
    if (i != 1) continue;
    middle = counter.sent();
    for (std::size_t group = 0; group < before.size(); ++group) middle[group].bytes -= before[group].bytes;
  }
  rehearsal.finish_step();
  RankWorkers& workers = rehearsal.workers();
  const std::vector<TrainedPart>& trained = plan.trained;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    workers.steps[i].matrices.for_each([](const parallel::WholeMatrix&) {});
    if (trained[i].optimizer->max_shared_bytes() > 0) trained[i].optimizer->share(trained[i].storage, *workers.ops);
  }

  std::vector<comm::SentBytes> sent = counter.sent();
  for (std::size_t group = 0; group < middle.size(); ++group) {
    sent[group].bytes += middle[group].bytes * rehearsal.num_left();
  }
  return sent;
}

}  // namespace sft::rank
