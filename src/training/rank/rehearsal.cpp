// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/rehearsal.hpp"

#include <algorithm>
#include <numeric>

#include "sft/core/cast.hpp"
#include "sft/device/launch_tape.hpp"
#include "sft/model/head_split.hpp"
#include "sft/model/layer_plan.hpp"

namespace sft::rank {

namespace {

/// One micro-batch of documents of these lengths.
sequence::AttentionSchedules schedules_of(const config::ValidConfig& config, const std::vector<std::int32_t>& documents,
                                          const RankPlan& plan) {
  const int sp_size = plan.place.size(Axis::sp);
  const sequence::RowCut cut(plan.sizes.tokens * sp_size, sp_size);
  const sequence::AttentionWindows windows = model::attention_windows(config->model);
  return sequence::make_schedules(config->parallel.attention_method(), windows, {documents}, cut, plan.place.sp_rank());
}

mesh::Groups groups_of(const config::ValidConfig& config, const RankPlan& plan) {
  const int kv_replicas = model::kv_replicas(config->model, plan.place.size(Axis::tp));
  return mesh::Groups::planned(plan.place, parallel::sharing_of(plan.policy, kv_replicas));
}

}  // namespace

rows::MicroBatchLimits limits_of(const std::vector<std::int32_t>& documents) {
  return {.tokens = std::reduce(documents.begin(), documents.end(), std::int64_t{0}),
          .document_tokens = std::ranges::max(documents)};
}

std::vector<std::int32_t> documents_of(const rows::MicroBatchLimits& limits) {
  std::vector<std::int32_t> documents;
  for (std::int64_t left = limits.tokens; left > 0; left -= limits.document_tokens) {
    documents.push_back(checked_cast<std::int32_t>(std::min(left, limits.document_tokens)));
  }
  return documents;
}

Rehearsal::Rehearsal(const config::ValidConfig& config, RankPlan& plan, const std::vector<std::int32_t>& documents,
                     device::Device& device, comm::Collectives& collectives, const Tools& tools)
    : num_micro_batches_(config->train.gradient_accumulation_steps),
      ulysses_size_(config->parallel.attention_method().ulysses_size),
      plan_(plan),
      arenas_(plan_.measure()),
      groups_(groups_of(config, plan_)),
      workers_(plan_, config, groups_, device, collectives, tools),
      schedules_(schedules_of(config, documents, plan_)) {
  workers_.units.parameters_written();
}

std::int64_t Rehearsal::num_played() const { return std::min(num_micro_batches_, most_played); }

void Rehearsal::begin_step() { workers_.units.begin_step(num_played()); }

model::Inputs Rehearsal::inputs_of(const sequence::AttentionSchedules& schedules) const {
  if (schedules.empty()) return plan_.upload.device;
  return first_rows(plan_.upload.device,
                    schedules.front().num_tokens / ulysses_size_);  // of all that exchange heads
}

void Rehearsal::play_micro_batch(const sequence::AttentionSchedules& schedules) {
  device::defer_launches(workers_.streams.compute->tape(), [&] {
    workers_.decoder.forward_backward(inputs_of(schedules), schedules, {1.0, 1.0},
                                      plan_.results.rows(0, model::Metric::count));
  });
}

void Rehearsal::play_evaluation(const sequence::AttentionSchedules& schedules) {
  workers_.decoder.forward_loss(inputs_of(schedules), schedules, plan_.results.rows(0, model::Metric::count));
}

}  // namespace sft::rank
