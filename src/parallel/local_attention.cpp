#include "parallel/local_attention.hpp"

#include "sft/core/error.hpp"

namespace sft::parallel {

void LocalAttention::lay_out(device::Arena& arena) {
  delta_ = take(arena, DType::float32, {shape_.tokens, shape_.q_heads});
}

ops::WorkspaceNeeds LocalAttention::workspace_needs() const {
  if (shape_.compute == DType::float32) return {};
  return {.num_keys = shape_.tokens,
          .longest_lane = shape_.row_tokens,
          .num_kv_heads = shape_.kv_heads,
          .head_dim = shape_.head_dim};
}

void LocalAttention::set_schedule(const sequence::AttentionSchedule& schedule) {
  ensure(schedule.steps.size() == 1, "whole rows are attended to in one step");
  plan_ = backend_.plan_attention(schedule.steps.front().spans, shape_.tokens, shape_.tokens);
}

void LocalAttention::forward(const Heads& heads, Tensor out, Tensor lse) {
  backend_.attention_forward({heads.q, heads.k, heads.v, out, lse, shape_.scale(), *plan_});
}

void LocalAttention::backward(const Heads& heads, Tensor out, Tensor lse, Tensor dout, const Heads& gradients) {
  backend_.attention_delta(delta_, out, dout);
  backend_.attention_backward(
      {heads.q, heads.k, heads.v, dout, lse, delta_, gradients.q, gradients.k, gradients.v, shape_.scale(), *plan_});
}

}  // namespace sft::parallel
