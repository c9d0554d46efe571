// SPDX-License-Identifier: Apache-2.0
#include "sft/model/block.hpp"

#include <algorithm>

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

void project(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  linear_forward(c, p.qkv, saved.qkv, scratch.normed);
}

bool has_qk_norm(const BlockParameters& p) { return p.plan.qk_norm != LayerPlan::QkNorm::none; }

/// Rotates queries and keys, if the layer does; with q/k norms into memory of their own.
void rotate(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  if (has_qk_norm(p)) {
    const auto epsilon = static_cast<float>(c.config.rms_norm_eps);
    const parallel::SequenceAttention::Heads raw = heads_of(saved.qkv, c.sizes);
    c.ops.norm_rope_forward({.out = saved.heads.q,
                             .rstd = saved.q_rstd,
                             .in = raw.q,
                             .weight = c.units.parameter(p.q_norm),
                             .table = scratch.ropes[p.plan.query_rope],
                             .epsilon = epsilon});
    c.ops.norm_rope_forward({.out = saved.heads.k,
                             .rstd = saved.k_rstd,
                             .in = raw.k,
                             .weight = c.units.parameter(p.k_norm),
                             .table = scratch.ropes[*p.plan.rope],
                             .epsilon = epsilon});
  } else {
    for_each_rotated(p.plan, saved.qkv, c.sizes, [&](const Tensor& rotated, int rope) {
      c.ops.rope_forward(rotated, rotated, scratch.ropes[rope]);
    });
  }
}

/// work(), named in the timeline.
template <class Work>
void timed(const Context& c, const char* name, const Work& work) {
  device::timed(c.device.timeline(), c.ops.stream(), {.category = "model", .what = name}, work);
}

void attend(const Context& c, const BlockParameters& p, BlockActivations& saved) {
  timed(c, "attention forward",
        [&] { c.attention.forward(p.plan.attention, saved.heads, saved.attention, saved.lse); });
}

/// What a sublayer adds to the residual stream, where that has a norm.
struct Branch {
  parallel::ParameterGroup norm;
  Tensor output, rstd;  ///< before the norm
};

Branch attention_branch(const BlockParameters& p, const BlockActivations& saved) {
  return {p.attention_branch_norm, saved.attention_branch, saved.attention_branch_rstd};
}

Branch mlp_branch(const BlockParameters& p, const BlockActivations& saved) {
  return {p.mlp_branch_norm, saved.mlp_branch, saved.mlp_branch_rstd};
}

/// The slice of delta = what a sublayer adds to the residual stream, of the terms of all ranks in delta. Overwrites
/// normed where there is a norm.
void finish_branch(const Context& c, const LayerPlan& plan, const Branch& branch, BlockScratch& scratch) {
  c.tp.reduce(scratch.delta);
  const Tensor delta = c.tp.slice(scratch.delta);
  if (plan.norms_branches) {
    const Tensor normed = c.tp.slice(scratch.normed);
    c.ops.copy(branch.output, delta);
    c.ops.rms_norm_forward(normed, branch.rstd, branch.output, c.units.parameter(branch.norm),
                           static_cast<float>(c.config.rms_norm_eps));
    c.ops.copy(delta, normed);
  } else if (plan.scales_branches()) {
    c.ops.scale(delta, plan.residual_multiplier);
  }
}

/// dbranch = the gradient of what the sublayer's products give, of the slice of dx.
void begin_branch(const Context& c, const LayerPlan& plan, const Branch& branch, BlockScratch& scratch) {
  const Tensor dbranch = c.tp.slice(scratch.dbranch), dx = c.tp.slice(scratch.dx);
  if (plan.norms_branches) {
    c.ops.rms_norm_backward({.dx = dbranch,
                             .dweight = c.units.accumulated_gradient(branch.norm),
                             .dy = dx,
                             .x = branch.output,
                             .rstd = branch.rstd,
                             .weight = c.units.parameter(branch.norm)});
  } else if (plan.scales_branches()) {
    c.ops.copy(dbranch, dx);
    c.ops.scale(dbranch, plan.residual_multiplier);
  }
  c.tp.gather(scratch.dbranch);
}

/// middle = x + what attention adds; the slice of normed is that of middle. Enters the unit of the MLP.
void join_attention(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  linear_forward_partial(c, p.o, scratch.delta, as_matrix(saved.attention));
  finish_branch(c, p.plan, attention_branch(p, saved), scratch);
  c.units.enter(p.mlp_unit);
  c.ops.add_rms_norm_forward({.sum = saved.middle,
                              .y = c.tp.slice(scratch.normed),
                              .rstd = saved.middle_rstd,
                              .x = saved.x,
                              .delta = c.tp.slice(scratch.delta),
                              .weight = c.units.parameter(p.post_attention_norm),
                              .epsilon = static_cast<float>(c.config.rms_norm_eps)});
}

void attention_backward(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  begin_branch(c, p.plan, attention_branch(p, saved), scratch);
  linear_backward_input(c, p.o, as_matrix(scratch.dattention), scratch.dbranch);

  const parallel::SequenceAttention::Heads gradients = heads_of(scratch.qkv, c.sizes);
  timed(c, "attention backward", [&] {
    c.attention.backward(p.plan.attention, saved.heads, saved.attention, saved.lse, scratch.dattention, gradients);
  });
  c.ops.rms_norm_apply({.y = c.tp.slice(scratch.normed),
                        .x = saved.x,
                        .rstd = saved.input_rstd,
                        .weight = c.units.parameter(p.input_norm)});
  c.tp.start_gather(scratch.normed);  // beside the gradients of queries, keys and values
  if (has_qk_norm(p)) {
    const parallel::SequenceAttention::Heads raw = heads_of(saved.qkv, c.sizes);
    c.ops.norm_rope_backward({.din = gradients.q,
                              .dweight = c.units.accumulated_gradient(p.q_norm),
                              .dout = gradients.q,
                              .in = raw.q,
                              .rstd = saved.q_rstd,
                              .weight = c.units.parameter(p.q_norm),
                              .table = scratch.ropes[p.plan.query_rope]});
    c.ops.norm_rope_backward({.din = gradients.k,
                              .dweight = c.units.accumulated_gradient(p.k_norm),
                              .dout = gradients.k,
                              .in = raw.k,
                              .rstd = saved.k_rstd,
                              .weight = c.units.parameter(p.k_norm),
                              .table = scratch.ropes[*p.plan.rope]});
  } else {
    for_each_rotated(p.plan, scratch.qkv, c.sizes, [&](const Tensor& rotated, int rope) {
      c.ops.rope_backward(rotated, rotated, scratch.ropes[rope]);
    });
  }

  linear_backward_input(c, p.qkv, scratch.dnormed, scratch.qkv);
  c.tp.finish();
  c.tp.start_reduce(scratch.dnormed, 0, scratch.dnormed.shape[0]);  // beside the weight gradients
  linear_backward_weight(c, p.o, scratch.dbranch, as_matrix(saved.attention));
  linear_backward_weight(c, p.qkv, scratch.qkv, scratch.normed);
  c.tp.finish();
}

/// Calls work(begin, count) for the tiles of the MLP, in order.
template <class Work>
void for_each_tile(const BlockScratch& scratch, const Work& work) {
  const std::int64_t num_tokens = scratch.normed.shape[0], tile_tokens = scratch.act.shape[0];
  for (std::int64_t begin = 0; begin < num_tokens; begin += tile_tokens) {
    work(begin, std::min(tile_tokens, num_tokens - begin));
  }
}

/// Gate and up of a tile: rows of what the block keeps, or the memory that all tiles share.
Tensor gate_up_of(const BlockActivations& saved, const BlockScratch& scratch, std::int64_t begin, std::int64_t count) {
  return saved.gate_up.empty() ? scratch.gate_up.rows(0, count) : saved.gate_up.rows(begin, count);
}

void mlp_forward(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  for_each_tile(scratch, [&](std::int64_t begin, std::int64_t count) {
    const Tensor gate_up = gate_up_of(saved, scratch, begin, count), act = scratch.act.rows(0, count);
    linear_forward(c, p.gate_up, gate_up, scratch.normed.rows(begin, count), begin);
    c.ops.swiglu_forward(act, gate_up);
    linear_forward_partial(c, p.down, scratch.delta.rows(begin, count), act, begin);
  });
  finish_branch(c, p.plan, mlp_branch(p, saved), scratch);
}

void mlp_backward(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  const bool recomputes = saved.gate_up.empty();
  begin_branch(c, p.plan, mlp_branch(p, saved), scratch);
  c.ops.rms_norm_apply({.y = c.tp.slice(scratch.normed),
                        .x = saved.middle,
                        .rstd = saved.middle_rstd,
                        .weight = c.units.parameter(p.post_attention_norm)});
  c.tp.start_gather(scratch.normed);  // beside the first gradients
  if (recomputes) c.tp.finish();
  for_each_tile(scratch, [&](std::int64_t begin, std::int64_t count) {
    const Tensor gate_up = gate_up_of(saved, scratch, begin, count), act = scratch.act.rows(0, count);
    const Tensor normed = scratch.normed.rows(begin, count), dnormed = scratch.dnormed.rows(begin, count);
    const Tensor dbranch = scratch.dbranch.rows(begin, count);
    if (recomputes) linear_forward(c, p.gate_up, gate_up, normed, begin);
    linear_backward_input(c, p.down, act, dbranch, begin);
    c.ops.swiglu_backward(gate_up, act, act, gate_up);
    linear_backward_input(c, p.gate_up, dnormed, gate_up, begin);
    c.tp.finish();
    c.tp.start_reduce(scratch.dnormed, begin, count);  // beside the weight gradients
    linear_backward_weight(c, p.down, dbranch, act, begin);
    linear_backward_weight(c, p.gate_up, gate_up, normed, begin);
    c.tp.finish();
  });
}

}  // namespace

void block_forward(const Context& c, const BlockParameters& p, const Tensor& previous, BlockActivations& saved,
                   BlockScratch& scratch) {
  const auto epsilon = static_cast<float>(c.config.rms_norm_eps);
  c.units.enter(p.attention_unit);
  const Tensor input_norm = c.units.parameter(p.input_norm), normed = c.tp.slice(scratch.normed);
  if (previous.empty()) {
    c.ops.rms_norm_forward(normed, saved.input_rstd, saved.x, input_norm, epsilon);
  } else {
    c.ops.add_rms_norm_forward({.sum = saved.x,
                                .y = normed,
                                .rstd = saved.input_rstd,
                                .x = previous,
                                .delta = c.tp.slice(scratch.delta),
                                .weight = input_norm,
                                .epsilon = epsilon});
  }
  c.tp.gather(scratch.normed);
  prepare_magnitudes(c, p.qkv);
  prepare_magnitudes(c, p.o);
  project(c, p, saved, scratch);
  rotate(c, p, saved, scratch);
  attend(c, p, saved);
  join_attention(c, p, saved, scratch);
  c.tp.gather(scratch.normed);
  prepare_magnitudes(c, p.gate_up);
  prepare_magnitudes(c, p.down);
  timed(c, "MLP forward", [&] { mlp_forward(c, p, saved, scratch); });
}

void block_recompute(const Context& c, const BlockParameters& p, const ActivationPolicy& policy,
                     BlockActivations& saved, BlockScratch& scratch) {
  if (policy.keeps_all()) return;
  c.units.enter(p.attention_unit);
  const bool keeps_products = policy.keeps_products();
  if (!keeps_products) {
    c.ops.rms_norm_apply({.y = c.tp.slice(scratch.normed),
                          .x = saved.x,
                          .rstd = saved.input_rstd,
                          .weight = c.units.parameter(p.input_norm)});
    c.tp.gather(scratch.normed);
    project(c, p, saved, scratch);
  }
  const bool is_rotated_in_place = !has_qk_norm(p);
  if (!keeps_products || !is_rotated_in_place) rotate(c, p, saved, scratch);
  if (!keeps_products) attend(c, p, saved);
  join_attention(c, p, saved, scratch);
}

void block_backward(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  c.units.enter(p.mlp_unit);
  timed(c, "MLP backward", [&] { mlp_backward(c, p, saved, scratch); });
  const Tensor dx = c.tp.slice(scratch.dx), dnormed = c.tp.slice(scratch.dnormed);
  c.ops.rms_norm_backward({.dx = dx,
                           .dweight = c.units.accumulated_gradient(p.post_attention_norm),
                           .dy = dnormed,
                           .x = saved.middle,
                           .rstd = saved.middle_rstd,
                           .weight = c.units.parameter(p.post_attention_norm),
                           .dresidual = dx});
  c.units.enter(p.attention_unit);
  attention_backward(c, p, saved, scratch);
  c.ops.rms_norm_backward({.dx = dx,
                           .dweight = c.units.accumulated_gradient(p.input_norm),
                           .dy = dnormed,
                           .x = saved.x,
                           .rstd = saved.input_rstd,
                           .weight = c.units.parameter(p.input_norm),
                           .dresidual = dx});
}

}  // namespace sft::model
