// SPDX-License-Identifier: Apache-2.0
#pragma once
// A step of training as a rank does it, over null devices and collectives: the same decoder, streams and collectives in
// the same order, without a device, memory or other ranks.

#include <cstdint>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/rank/rank_plan.hpp"
#include "sft/rank/tools.hpp"
#include "sft/rank/workers.hpp"
#include "sft/rows/micro_batch_limits.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::rank {

/// Lengths of the documents of a micro-batch that is as large as `limits` let it be.
[[nodiscard]] std::vector<std::int32_t> documents_of(const rows::MicroBatchLimits& limits);
/// Of the plan of a rank that trains on one micro-batch of documents of these lengths.
[[nodiscard]] rows::MicroBatchLimits limits_of(const std::vector<std::int32_t>& documents);

/// The first micro-batch of a step, one in the middle and the last differ: of more than three, the middle one stands
/// for several.
class Rehearsal {
 public:
  static constexpr std::int64_t most_played = 3;

  /// Of the rank of `plan`, which it lays out, on micro-batches of documents of these lengths, as long together as
  /// `plan` has it. All outlive it but for the tools.
  Rehearsal(const config::ValidConfig& config, RankPlan& plan, const std::vector<std::int32_t>& documents,
            device::Device& device, comm::Collectives& collectives, const Tools& tools);

  /// Of the micro-batches of a step, those that are played; the other num_left() are as the second.
  [[nodiscard]] std::int64_t num_played() const;
  [[nodiscard]] std::int64_t num_left() const { return num_micro_batches_ - num_played(); }

  void begin_step();
  void play_micro_batch() { play_micro_batch(schedules_); }
  /// The same of other documents, of no more tokens.
  void play_micro_batch(const sequence::AttentionSchedules& schedules);
  /// A micro-batch that is evaluated on, between steps.
  void play_evaluation(const sequence::AttentionSchedules& schedules);
  void finish_step() { workers_.units.finish_step(); }

  [[nodiscard]] RankPlan& plan() { return plan_; }
  [[nodiscard]] RankWorkers& workers() { return workers_; }
  [[nodiscard]] const mesh::Groups& groups() const { return groups_; }

 private:
  [[nodiscard]] model::Inputs inputs_of(const sequence::AttentionSchedules& schedules) const;

  const std::int64_t num_micro_batches_;
  const int ulysses_size_;
  RankPlan& plan_;
  RankPlan::Arenas arenas_;
  const mesh::Groups groups_;
  RankWorkers workers_;
  const sequence::AttentionSchedules schedules_;
};

}  // namespace sft::rank
