// SPDX-License-Identifier: Apache-2.0
#include "ops/checked/attention_rules.hpp"

#include <fmt/core.h>

#include "ops/checked/call.hpp"

namespace sft::ops::checked {

namespace {

/// Queries, keys and values, and the plan for them, which is returned as the other backend made it.
template <class Attention>
const AttentionPlan& check_attention(Call& call, const Attention& attention) {
  const ConstTensor &q = attention.q, &k = attention.k;
  call.require_dims("q", q, 3);
  call.require_dims("k", k, 3);
  const DType compute = compute_of(call, "q", q);
  const std::int64_t num_keys = k.shape[0], num_kv_heads = k.shape[1], head_dim = q.shape[2];
  call.require(head_dim > 0 && head_dim % 2 == 0 && head_dim <= max_head_dim,
               fmt::format("q has a head dim that is odd or above {}", max_head_dim));
  call.require(num_kv_heads > 0 && q.shape[1] % num_kv_heads == 0, "q has heads that are no multiple of those of k");
  call.in("q", q, shape_of(q), compute, Layout::strided);
  call.in("k", k, {num_keys, num_kv_heads, head_dim}, compute, Layout::strided);
  call.in("v", attention.v, {num_keys, num_kv_heads, head_dim}, compute, Layout::strided);
  call.require(attention.softcap >= 0.0F, "softcap is negative");
  const auto* plan = dynamic_cast<const SizedPlan*>(&attention.plan);
  call.require(plan != nullptr, "plan is of another backend");
  call.require(plan->num_queries == q.shape[0] && plan->num_keys == num_keys,
               fmt::format("plan is for {} queries and {} keys", plan->num_queries, plan->num_keys));
  return *plan->inner;
}

}  // namespace

void check_plan_attention(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries,
                          std::int64_t num_keys) {
  const Call call("plan_attention");
  for (const sequence::AttentionSpan& span : spans) {
    call.require(span.q_begin >= 0 && span.q_len >= 0 && span.q_begin + span.q_len <= num_queries,
                 "spans has queries outside the rows");
    call.require(span.k_begin >= 0 && span.k_len >= 0 && span.k_begin + span.k_len <= num_keys,
                 "spans has keys outside the rows");
    call.require(span.window >= 0 && span.window == spans.front().window, "spans has windows that differ");
  }
}

const AttentionPlan& check_attention_forward(const AttentionForward& attention) {
  Call call("attention_forward");
  const AttentionPlan& plan = check_attention(call, attention);
  const ConstTensor& q = attention.q;
  call.out("out", attention.out, shape_of(q),
           attention.merge ? DTypes(DType::float32) : DTypes{q.dtype, DType::float32}, Layout::strided);
  call.out("lse", attention.lse, {q.shape[0], q.shape[1]}, DType::float32);
  if (!attention.sinks.empty()) {
    call.in("sinks", attention.sinks, {q.shape[1]}, any_compute);
    call.require(!attention.merge, "sinks belong to the first call of those that are merged");
  }
  call.check_memory();
  return plan;
}

void check_attention_delta(const Tensor& delta, const ConstTensor& out, const ConstTensor& dout) {
  Call call("attention_delta");
  call.require_dims("out", out, 3);
  const DType compute = compute_of(call, "out", out);
  call.in("out", out, shape_of(out), compute, Layout::strided);
  call.in("dout", dout, shape_of(out), compute, Layout::strided);
  call.out("delta", delta, {out.shape[0], out.shape[1]}, DType::float32);
  call.check_memory();
}

const AttentionPlan& check_attention_backward(const AttentionBackward& attention) {
  Call call("attention_backward");
  const AttentionPlan& plan = check_attention(call, attention);
  const ConstTensor &q = attention.q, &k = attention.k;
  const auto gradient_dtypes = [&](bool accumulates) {
    return accumulates ? DTypes(DType::float32) : DTypes{q.dtype, DType::float32};
  };
  call.in("dout", attention.dout, shape_of(q), q.dtype, Layout::strided);
  if (!attention.out.empty()) call.in("out", attention.out, shape_of(q), q.dtype, Layout::strided);
  call.in("lse", attention.lse, {q.shape[0], q.shape[1]}, DType::float32);
  call.in("delta", attention.delta, {q.shape[0], q.shape[1]}, DType::float32);
  call.out("dq", attention.dq, shape_of(q), gradient_dtypes(attention.accumulate_dq), Layout::strided);
  call.out("dk", attention.dk, shape_of(k), gradient_dtypes(attention.accumulate_dkv), Layout::strided);
  call.out("dv", attention.dv, shape_of(k), attention.dk.dtype, Layout::strided);
  call.check_memory();
  return plan;
}

void check_attention_sinks_backward(const AttentionSinksBackward& attention) {
  Call call("attention_sinks_backward");
  call.require_dims("lse", attention.lse, 2);
  const std::vector<std::int64_t> shape = shape_of(attention.lse);
  call.in("lse", attention.lse, shape, DType::float32);
  call.in("delta", attention.delta, shape, DType::float32);
  call.in("sinks", attention.sinks, {shape[1]}, any_compute);
  call.out("dsinks", attention.dsinks, {shape[1]}, DType::float32);
  call.check_memory();
}

}  // namespace sft::ops::checked
