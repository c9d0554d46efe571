// SPDX-License-Identifier: Apache-2.0
#include "parallel/local_attention.hpp"

#include <algorithm>

#include "sft/core/ensure.hpp"

namespace sft::parallel {

void LocalBuffers::lay_out(device::Arena& arena) { delta = take(arena, DType::float32, {shape.tokens, shape.q_heads}); }

ops::AttentionNeeds LocalBuffers::attention_needs() const {
  ops::AttentionNeeds needs{.num_kinds = shape.num_kinds, .plan_queries = shape.tokens, .plan_keys = shape.tokens};
  if (shape.compute == DType::float32) return needs;
  if (ops::is_of_library(shape.kernels)) {
    needs.library = {.tokens = shape.tokens,
                     .q_heads = shape.q_heads,
                     .kv_heads = shape.kv_heads,
                     .head_dim = shape.head_dim,
                     .dq_row = shape.gradient_row,
                     .has_backward = shape.has_library_backward()};
  }
  needs.num_keys = shape.tokens;
  needs.longest_lane = std::min(shape.tokens, shape.document_tokens);
  needs.num_kv_heads = shape.kv_heads;
  needs.head_dim = shape.head_dim;
  return needs;
}

std::unique_ptr<InnerAttention> LocalBuffers::make_inner(const comm::Group&, device::Device&, ops::Backend& backend,
                                                         comm::Collectives&, device::Stream&) const {
  return std::make_unique<LocalAttention>(*this, backend);
}

void LocalAttention::set_schedules(const sequence::AttentionSchedules& schedules) {
  num_tokens_ = num_tokens_of(schedules, buffers_.shape);
  plans_.clear();
  for (const sequence::AttentionSchedule& schedule : schedules) {
    SFT_ENSURE(schedule.rounds.size() == 1, "whole rows are attended to in one round");
    plans_.push_back(backend_.plan_attention(schedule.rounds.front().spans, num_tokens_, num_tokens_));
  }
}

void LocalAttention::forward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse) {
  backend_.run(ops::AttentionForward{.q = heads.q,
                                     .k = heads.k,
                                     .v = heads.v,
                                     .out = out,
                                     .lse = lse,
                                     .scale = buffers_.shape.scale(),
                                     .plan = *plans_[kind],
                                     .softcap = buffers_.shape.softcap,
                                     .sinks = heads.sinks});
}

void LocalAttention::backward_over_keys(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse,
                                        Tensor dout, const Heads& gradients) {
  backend_.run(ops::AttentionBackward{.q = heads.q,
                                      .k = heads.k,
                                      .v = heads.v,
                                      .dout = dout,
                                      .lse = lse,
                                      .delta = delta(),
                                      .dq = gradients.q,
                                      .dk = gradients.k,
                                      .dv = gradients.v,
                                      .scale = buffers_.shape.scale(),
                                      .plan = *plans_[kind],
                                      .softcap = buffers_.shape.softcap,
                                      .out = buffers_.shape.has_library_backward() ? out : Tensor()});
}

}  // namespace sft::parallel
