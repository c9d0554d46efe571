// SPDX-License-Identifier: Apache-2.0
#include "sft/plan/traffic.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <numeric>

#include "sft/core/cast.hpp"
#include "sft/core/format.hpp"
#include "sft/device/factory.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/model/architecture.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/plan/rank_plan.hpp"
#include "sft/plan/workers.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::plan {

namespace {

/// One micro-batch of documents of these lengths.
sequence::AttentionSchedules schedules_of(const config::ValidConfig& config, const std::vector<std::int32_t>& documents,
                                          const RankPlan& plan) {
  const int sp_size = plan.place.size(Axis::sp);
  const sequence::RowCut cut(plan.sizes.tokens * sp_size, sp_size);
  const sequence::AttentionWindows windows = model::attention_windows(config->model);
  return sequence::make_schedules(config->parallel.attention_method(), windows, {documents}, cut, plan.place.sp_rank());
}

}  // namespace

std::vector<comm::SentBytes> plan_traffic(const config::ValidConfig& config, const data::MicroBatchLimits& limits,
                                          const mesh::Place& place, const Machine& machine) {
  std::vector<std::int32_t> documents;
  for (std::int64_t left = limits.tokens; left > 0; left -= limits.document_tokens) {
    documents.push_back(checked_cast<std::int32_t>(std::min(left, limits.document_tokens)));
  }
  return plan_traffic(config, documents, place, machine);
}

std::vector<comm::SentBytes> plan_traffic(const config::ValidConfig& config, const std::vector<std::int32_t>& documents,
                                          const mesh::Place& place, const Machine& machine) {
  const data::MicroBatchLimits limits{.tokens = std::reduce(documents.begin(), documents.end(), std::int64_t{0}),
                                      .document_tokens = std::ranges::max(documents)};
  RankPlan plan(config, limits, place, machine);
  RankPlan::Arenas arenas = plan.measure();
  const int kv_replicas = model::kv_replicas(config->model, place.size(Axis::tp));
  const mesh::Groups groups = mesh::Groups::planned(place, parallel::sharing_of(plan.policy, kv_replicas));
  const std::unique_ptr<device::Device> device = device::make_null_device();
  comm::TrafficCounter counter;
  RankWorkers workers(plan, config, groups, *device, counter, Work::counted);

  // The first micro-batch of a step, one in the middle and the last differ: of more than three, the middle one counts
  // several times.
  const std::int64_t num_micro_batches = config->train.gradient_accumulation_steps;
  const std::int64_t num_played = std::min<std::int64_t>(num_micro_batches, 3);
  const sequence::AttentionSchedules schedules = schedules_of(config, documents, plan);
  const Tensor metrics = plan.results.rows(0, num_metrics);
  workers.units.parameters_written();
  workers.units.begin_step(num_played);
  std::vector<comm::SentBytes> middle;
  for (std::int64_t i = 0; i < num_played; ++i) {
    const auto before = std::vector<comm::SentBytes>(counter.sent());
    workers.decoder.forward_backward(plan.upload.device, schedules, {1.0, 1.0}, metrics, 0);
    if (i != 1) continue;
    middle = counter.sent();
    for (std::size_t group = 0; group < before.size(); ++group) middle[group].bytes -= before[group].bytes;
  }
  workers.units.finish_step();
  for (std::size_t i = 0; i < plan.trained.size(); ++i) {
    const TrainedPart& part = plan.trained[i];
    workers.steps[i].matrices.for_each([](const parallel::WholeMatrix&) {});
    if (part.optimizer->max_shared_bytes() > 0) part.optimizer->share(part.storage, *workers.ops);
  }

  std::vector<comm::SentBytes> sent = counter.sent();
  for (std::size_t group = 0; group < middle.size(); ++group) {
    sent[group].bytes += middle[group].bytes * (num_micro_batches - num_played);
  }
  return sent;
}

std::string describe_traffic(const std::vector<comm::SentBytes>& sent) {
  std::vector<std::string> groups;
  for (const comm::SentBytes& group : sent) {
    groups.push_back(fmt::format("{} {}", group.group, format_bytes(group.bytes)));
  }
  return groups.empty() ? "nothing" : fmt::format("{}", fmt::join(groups, ", "));
}

}  // namespace sft::plan
