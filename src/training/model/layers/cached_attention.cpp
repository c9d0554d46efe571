// SPDX-License-Identifier: Apache-2.0
#include "sft/model/layers/cached_attention.hpp"

#include "sft/core/ensure.hpp"
#include "sft/model/linear/linear.hpp"

namespace sft::model {

CachedAttention::CachedAttention(float scale, float softcap, const sequence::AttentionWindows& windows,
                                 ops::Backend& backend)
    : scale_(scale), softcap_(softcap), windows_(windows), backend_(backend) {}

void CachedAttention::begin_pass(std::int64_t num_cached, std::int64_t num_new) {
  num_cached_ = num_cached;
  num_new_ = num_new;
  sequence::AttentionSchedules schedules;
  for (const std::int64_t window : windows_) {
    sequence::AttentionRound round;
    for (const sequence::AttentionSpan& span :
         {sequence::AttentionSpan{0, num_new, 0, num_cached, /*diagonal=*/num_cached, 0, window},
          sequence::AttentionSpan{0, num_new, num_cached, num_new, /*diagonal=*/0, 0, window}}) {
      if (span.sees_any()) round.spans.push_back(span);
    }
    schedules.push_back({.rounds = {round}, .num_tokens = num_new});
  }
  set_schedules(schedules);
}

void CachedAttention::set_schedules(const sequence::AttentionSchedules& schedules) {
  plans_.clear();
  for (const sequence::AttentionSchedule& schedule : schedules) {
    SFT_ENSURE(schedule.rounds.size() == 1, "a cache is attended to in one round");
    plans_.push_back(backend_.plan_attention(schedule.rounds.front().spans, num_new_, num_cached_ + num_new_));
  }
}

void CachedAttention::forward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse) {
  backend_.run(ops::Copy{as_matrix(cache_.keys.rows(num_cached_, num_new_)), as_matrix(heads.k)});
  backend_.run(ops::Copy{as_matrix(cache_.values.rows(num_cached_, num_new_)), as_matrix(heads.v)});
  const std::int64_t num_keys = num_cached_ + num_new_;
  backend_.run(ops::AttentionForward{.q = heads.q,
                                     .k = cache_.keys.rows(0, num_keys),
                                     .v = cache_.values.rows(0, num_keys),
                                     .out = out,
                                     .lse = lse,
                                     .scale = scale_,
                                     .plan = *plans_[kind],
                                     .softcap = softcap_,
                                     .sinks = heads.sinks});
}

void CachedAttention::backward(sequence::AttentionKind /*kind*/, const Heads& /*heads*/, Tensor /*out*/, Tensor /*lse*/,
                               Tensor /*dout*/, const Heads& /*gradients*/) {
  SFT_ENSURE(false, "keys and values in a cache have no gradient");
}

}  // namespace sft::model
