// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/coming_attention.hpp"

#include <utility>

namespace sft::rank {

sequence::AttentionSchedules schedules_of(const rows::LoaderPlan& plan, rows::ComingMicroBatch batch) {
  const sequence::RowCut cut(batch.row_length, plan.sp_size);
  return sequence::make_schedules(plan.attention_method, plan.attention_windows, {std::move(batch.documents)}, cut,
                                  SpRank::from(plan.sp_rank));
}

void expect_attention(ops::Backend& backend, const sequence::AttentionSchedules& schedules) {
  for (const sequence::AttentionSchedule& schedule : schedules) {
    for (const sequence::AttentionRound& round : schedule.rounds) {
      backend.expect_attention(round.spans, schedule.num_tokens, schedule.num_keys);
    }
  }
}

}  // namespace sft::rank
