// SPDX-License-Identifier: Apache-2.0
#include "sft/model/attention_layer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "sft/model/linear.hpp"

namespace sft::model {

namespace {

/// Calls rotate(heads, rope) for the heads in a fused (T, (H + 2K) D) tensor that are rotated: queries and keys
/// together (T, H + K, D), unless they have other tables.
template <class Rotate>
void for_each_rotated(const LayerPlan& plan, const Tensor& qkv, const Sizes& s, const Rotate& rotate) {
  if (!plan.rope) return;
  if (plan.query_rope == *plan.rope) {
    const Tensor both = qkv.columns(0, s.q_columns() + s.kv_columns());
    rotate(both.view({qkv.shape[0], s.q_heads + s.kv_heads, s.head_dim}), *plan.rope);
    return;
  }
  const parallel::SequenceAttention::Heads heads = heads_of(qkv, s);
  rotate(heads.q, plan.query_rope);
  rotate(heads.k, *plan.rope);
}

void project(const Context& c, const BlockParameters& p, AttentionActivations& saved, BlockScratch& scratch) {
  linear_forward(c, p.qkv, saved.qkv, scratch.normed);
}

bool has_qk_norm(const BlockParameters& p) { return p.plan.qk_norm != LayerPlan::QkNorm::none; }

/// Norms that all ranks of tp share: of the queries and of the keys, and the sum over tp that each needs.
struct SharedNorm {
  const parallel::ParameterGroup& weight;
  Tensor heads, raw, gradient;  ///< as matrices (T, n D): what comes out, what goes in, and its gradient
  Tensor rstd, sums;            ///< (T) float32
};

std::array<SharedNorm, 2> shared_norms(const Context& c, const BlockParameters& p, const AttentionActivations& saved,
                                       const BlockScratch& scratch) {
  const parallel::SequenceAttention::Heads raw = heads_of(saved.qkv, c.sizes);
  const parallel::SequenceAttention::Heads gradients =
      scratch.qkv.empty() ? parallel::SequenceAttention::Heads{} : heads_of(scratch.qkv, c.sizes);
  const auto matrix = [](const Tensor& heads) { return heads.empty() ? Tensor() : as_matrix(heads); };
  const std::int64_t num_tokens = saved.qkv.shape[0];
  return {SharedNorm{p.q_norm, as_matrix(saved.heads.q), as_matrix(raw.q), matrix(gradients.q), saved.q_rstd,
                     scratch.row_sums.rows(0, num_tokens)},
          SharedNorm{p.k_norm, as_matrix(saved.heads.k), as_matrix(raw.k), matrix(gradients.k), saved.k_rstd,
                     scratch.row_sums.rows(num_tokens, num_tokens)}};
}

/// Those of ranks that hold the same heads count as their sums do, each time.
std::int64_t columns_of_all_ranks(const Context& c, const SharedNorm& norm) { return c.tp.size() * norm.raw.shape[1]; }

void norm_all_heads(const Context& c, const BlockParameters& p, AttentionActivations& saved, BlockScratch& scratch) {
  const std::array<SharedNorm, 2> norms = shared_norms(c, p, saved, scratch);
  for (const SharedNorm& norm : norms) c.ops.split_norm_squares(norm.sums, norm.raw);
  c.tp.sum(scratch.row_sums.rows(0, 2 * saved.qkv.shape[0]));
  for (const SharedNorm& norm : norms) {
    c.ops.split_norm_forward({.y = norm.heads,
                              .rstd = norm.rstd,
                              .x = norm.raw,
                              .squares = norm.sums,
                              .weight = norm_weight(c, norm.weight),
                              .all_columns = columns_of_all_ranks(c, norm),
                              .epsilon = static_cast<float>(c.config.rms_norm_eps)});
  }
}

/// In place, in the gradients of queries and keys.
void norm_all_heads_backward(const Context& c, const BlockParameters& p, const AttentionActivations& saved,
                             BlockScratch& scratch) {
  const std::array<SharedNorm, 2> norms = shared_norms(c, p, saved, scratch);
  for (const SharedNorm& norm : norms) {
    c.ops.split_norm_dots({.dots = norm.sums,
                           .dweight = c.units.accumulated_gradient(norm.weight),
                           .dy = norm.gradient,
                           .x = norm.raw,
                           .rstd = norm.rstd,
                           .weight = norm_weight(c, norm.weight)});
  }
  c.tp.sum(scratch.row_sums.rows(0, 2 * saved.qkv.shape[0]));
  for (const SharedNorm& norm : norms) {
    c.ops.split_norm_backward({.dx = norm.gradient,
                               .dy = norm.gradient,
                               .x = norm.raw,
                               .rstd = norm.rstd,
                               .dots = norm.sums,
                               .weight = norm_weight(c, norm.weight),
                               .all_columns = columns_of_all_ranks(c, norm)});
  }
}

/// What heads are turned by as they are normed: by nothing where some of their dims alone are turned, later.
ops::RopeTable table_of_normed(const LayerPlan& plan, const ops::RopeTable& table) {
  return plan.rotates_in_part ? ops::RopeTable{} : table;
}

/// Rotates queries and keys, if the layer does; with q/k norms into memory of their own.
void rotate(const Context& c, const BlockParameters& p, AttentionActivations& saved, BlockScratch& scratch) {
  if (p.plan.qk_norm == LayerPlan::QkNorm::all_heads) {
    norm_all_heads(c, p, saved, scratch);
    for (const Tensor& heads : {saved.heads.q, saved.heads.k}) {
      c.ops.rope_forward(heads, heads, scratch.ropes[*p.plan.rope]);
    }
  } else if (has_qk_norm(p)) {
    const auto epsilon = static_cast<float>(c.config.rms_norm_eps);
    const parallel::SequenceAttention::Heads raw = heads_of(saved.qkv, c.sizes);
    c.ops.norm_rope_forward({.out = saved.heads.q,
                             .rstd = saved.q_rstd,
                             .in = raw.q,
                             .weight = norm_weight(c, p.q_norm),
                             .table = table_of_normed(p.plan, scratch.ropes[p.plan.query_rope]),
                             .epsilon = epsilon});
    c.ops.norm_rope_forward({.out = saved.heads.k,
                             .rstd = saved.k_rstd,
                             .in = raw.k,
                             .weight = norm_weight(c, p.k_norm),
                             .table = table_of_normed(p.plan, scratch.ropes[*p.plan.rope]),
                             .epsilon = epsilon});
    if (p.plan.rotates_in_part) {
      c.ops.rope_forward(saved.heads.q, saved.heads.q, scratch.ropes[p.plan.query_rope]);
      c.ops.rope_forward(saved.heads.k, saved.heads.k, scratch.ropes[*p.plan.rope]);
    }
  } else {
    for_each_rotated(p.plan, saved.qkv, c.sizes, [&](const Tensor& rotated, int rope) {
      c.ops.rope_forward(rotated, rotated, scratch.ropes[rope]);
    });
  }
}

void rotate_backward(const Context& c, const BlockParameters& p, const AttentionActivations& saved,
                     BlockScratch& scratch, const parallel::SequenceAttention::Heads& gradients) {
  if (p.plan.qk_norm == LayerPlan::QkNorm::all_heads) {
    for_each_rotated(p.plan, scratch.qkv, c.sizes, [&](const Tensor& rotated, int rope) {
      c.ops.rope_backward(rotated, rotated, scratch.ropes[rope]);
    });
    norm_all_heads_backward(c, p, saved, scratch);
  } else if (has_qk_norm(p)) {
    const parallel::SequenceAttention::Heads raw = heads_of(saved.qkv, c.sizes);
    if (p.plan.rotates_in_part) {
      for_each_rotated(p.plan, scratch.qkv, c.sizes, [&](const Tensor& rotated, int rope) {
        c.ops.rope_backward(rotated, rotated, scratch.ropes[rope]);
      });
    }
    c.ops.norm_rope_backward({.din = gradients.q,
                              .dweight = c.units.accumulated_gradient(p.q_norm),
                              .dout = gradients.q,
                              .in = raw.q,
                              .rstd = saved.q_rstd,
                              .weight = norm_weight(c, p.q_norm),
                              .table = table_of_normed(p.plan, scratch.ropes[p.plan.query_rope])});
    c.ops.norm_rope_backward({.din = gradients.k,
                              .dweight = c.units.accumulated_gradient(p.k_norm),
                              .dout = gradients.k,
                              .in = raw.k,
                              .rstd = saved.k_rstd,
                              .weight = norm_weight(c, p.k_norm),
                              .table = table_of_normed(p.plan, scratch.ropes[*p.plan.rope])});
  } else {
    for_each_rotated(p.plan, scratch.qkv, c.sizes, [&](const Tensor& rotated, int rope) {
      c.ops.rope_backward(rotated, rotated, scratch.ropes[rope]);
    });
  }
}

/// Where several ranks hold the same key/value heads, each has a term of their gradients: the last columns of
/// scratch.qkv. In 8-bit floats the sum of rounded terms is not the rounded sum, so the first of these ranks gets the
/// sum here, and the others zeros. In the memory of scratch.dnormed, which comes next.
void sum_before_rounding(const Context& c, BlockScratch& scratch) {
  if (c.fp8 == nullptr || c.tp.num_kv_replicas() == 1) return;
  const std::int64_t num_columns = 2 * c.sizes.kv_columns();
  const Tensor terms = scratch.qkv.columns(c.sizes.q_columns(), num_columns);
  const Tensor memory = scratch.dnormed.view({scratch.dnormed.num_elements()});
  const std::int64_t num_tokens = terms.shape[0], most = memory.shape[0] / num_columns;
  for (std::int64_t begin = 0; begin < num_tokens; begin += most) {
    const std::int64_t count = std::min(most, num_tokens - begin);
    const Tensor sums = memory.rows(0, count * num_columns).view({count, num_columns});
    c.ops.copy(sums, terms.rows(begin, count));
    c.tp.sum_over_kv_replicas(sums);
    if (c.tp.kv_replica() == 0) c.ops.copy(terms.rows(begin, count), sums);
  }
  if (c.tp.kv_replica() != 0) c.ops.fill(terms, 0.0F);
}

/// What attention reads: rotated heads and, where the layer has them, its sinks.
parallel::SequenceAttention::Heads inputs_of(const Context& c, const BlockParameters& p,
                                             const AttentionActivations& saved) {
  parallel::SequenceAttention::Heads heads = saved.heads;
  if (p.plan.has_sinks) heads.sinks = c.units.parameter(p.sinks);
  return heads;
}

void attend(const Context& c, const BlockParameters& p, AttentionActivations& saved) {
  const parallel::SequenceAttention::Heads heads = inputs_of(c, p, saved);
  timed(c, "attention forward", [&] { c.attention.forward(p.plan.attention, heads, saved.out, saved.lse); });
}

}  // namespace

void attention_forward(const Context& c, const BlockParameters& p, AttentionActivations& saved, BlockScratch& scratch) {
  prepare_magnitudes(c, p.qkv);
  prepare_magnitudes(c, p.o);
  project(c, p, saved, scratch);
  rotate(c, p, saved, scratch);
  attend(c, p, saved);
  linear_forward_partial(c, p.o, scratch.delta, as_matrix(saved.out));
}

void attention_recompute(const Context& c, const BlockParameters& p, const ActivationPolicy& policy,
                         AttentionActivations& saved, BlockScratch& scratch) {
  const bool keeps_products = policy.keeps_products(), is_rotated_in_place = !has_qk_norm(p);
  if (!keeps_products) project(c, p, saved, scratch);
  if (!keeps_products || !is_rotated_in_place) rotate(c, p, saved, scratch);
  if (!keeps_products) attend(c, p, saved);
  linear_forward_partial(c, p.o, scratch.delta, as_matrix(saved.out));
}

void attention_backward(const Context& c, const BlockParameters& p, AttentionActivations& saved, BlockScratch& scratch,
                        const std::function<void()>& start_normed) {
  linear_backward_input(c, p.o, as_matrix(scratch.dattention), scratch.dbranch);

  const parallel::SequenceAttention::Heads heads = inputs_of(c, p, saved);
  parallel::SequenceAttention::Heads gradients = heads_of(scratch.qkv, c.sizes);
  if (p.plan.has_sinks) gradients.sinks = c.units.accumulated_gradient(p.sinks);
  timed(c, "attention backward",
        [&] { c.attention.backward(p.plan.attention, heads, saved.out, saved.lse, scratch.dattention, gradients); });
  start_normed();  // in the memory of dattention, beside the gradients of queries, keys and values
  rotate_backward(c, p, saved, scratch, gradients);
  sum_before_rounding(c, scratch);

  const auto differentiate_input = [&] { linear_backward_input(c, p.qkv, scratch.dnormed, scratch.qkv); };
  const auto add_weight_gradients = [&] {
    linear_backward_weight(c, p.o, scratch.dbranch, as_matrix(saved.out));
    linear_backward_weight(c, p.qkv, scratch.qkv, scratch.normed);
  };
  if (scratch.is_in_one) {
    add_weight_gradients();
    differentiate_input();
    return;
  }
  differentiate_input();
  c.tp.finish();
  c.tp.start_reduce(scratch.dnormed, 0, scratch.dnormed.shape[0]);  // beside the weight gradients
  add_weight_gradients();
  c.tp.finish();
}

}  // namespace sft::model
