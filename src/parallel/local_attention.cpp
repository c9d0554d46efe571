// SPDX-License-Identifier: Apache-2.0
#include "parallel/local_attention.hpp"

#include "sft/core/error.hpp"

namespace sft::parallel {

void LocalBuffers::lay_out(device::Arena& arena) { delta = take(arena, DType::float32, {shape.tokens, shape.q_heads}); }

ops::AttentionNeeds LocalBuffers::attention_needs() const {
  if (shape.compute == DType::float32) return {};
  return {.num_keys = shape.tokens,
          .longest_lane = shape.document_tokens,
          .num_kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim};
}

std::unique_ptr<SequenceAttention> LocalBuffers::make_attention(const comm::Group&, device::Device&,
                                                                ops::Backend& backend, comm::Collectives&,
                                                                device::Stream&) const {
  return std::make_unique<LocalAttention>(*this, backend);
}

void LocalAttention::set_schedule(const sequence::AttentionSchedule& schedule) {
  ensure(schedule.steps.size() == 1, "whole rows are attended to in one step");
  plan_ = backend_.plan_attention(schedule.steps.front().spans, schedule.num_tokens, schedule.num_tokens);
}

void LocalAttention::forward(const Heads& heads, Tensor out, Tensor lse) {
  backend_.attention_forward({heads.q, heads.k, heads.v, out, lse, buffers_.shape.scale(), *plan_});
}

void LocalAttention::backward(const Heads& heads, Tensor out, Tensor lse, Tensor dout, const Heads& gradients) {
  const Tensor delta = buffers_.delta.rows(0, out.shape[0]);
  backend_.attention_delta(delta, out, dout);
  backend_.attention_backward({heads.q, heads.k, heads.v, dout, lse, delta, gradients.q, gradients.k, gradients.v,
                               buffers_.shape.scale(), *plan_});
}

}  // namespace sft::parallel
