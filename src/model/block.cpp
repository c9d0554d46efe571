// SPDX-License-Identifier: Apache-2.0
#include "sft/model/block.hpp"

#include <algorithm>
#include <initializer_list>

#include "sft/model/linear.hpp"

namespace sft::model {

namespace {

/// Queries, keys and values of a fused (T, (H + 2K) D) tensor.
parallel::SequenceAttention::Heads split_heads(const Tensor& qkv, const Sizes& s) {
  const auto heads = [&](std::int64_t begin, std::int64_t n) {
    return qkv.columns(begin, n * s.head_dim).view({qkv.shape[0], n, s.head_dim});
  };
  return {heads(0, s.q_heads), heads(s.q_columns(), s.kv_heads), heads(s.q_columns() + s.kv_columns(), s.kv_heads)};
}

/// The heads of it that are rotated, queries and keys together: (T, H + K, D).
Tensor rotated_heads(const Tensor& qkv, const Sizes& s) {
  return qkv.columns(0, s.q_columns() + s.kv_columns()).view({qkv.shape[0], s.q_heads + s.kv_heads, s.head_dim});
}

/// Leaves the first rows of each of `members` that has memory.
template <class Buffers>
void narrow(Buffers& buffers, std::int64_t num_rows, std::initializer_list<Tensor Buffers::*> members) {
  for (Tensor Buffers::*member : members) {
    Tensor& tensor = buffers.*member;
    if (!tensor.empty()) tensor = tensor.rows(0, num_rows);
  }
}

void project(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  linear_forward(c, p.qkv, saved.qkv, scratch.normed);
}

/// Rotates queries and keys; with qk_norm into memory of their own.
void rotate(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  if (p.q_norm.exists()) {
    const auto epsilon = static_cast<float>(c.config.rms_norm_eps);
    const parallel::SequenceAttention::Heads raw = split_heads(saved.qkv, c.sizes);
    c.ops.norm_rope_forward({.out = saved.heads.q,
                             .rstd = saved.q_rstd,
                             .in = raw.q,
                             .weight = c.units.parameter(p.q_norm),
                             .table = {scratch.cosine, scratch.sine},
                             .epsilon = epsilon});
    c.ops.norm_rope_forward({.out = saved.heads.k,
                             .rstd = saved.k_rstd,
                             .in = raw.k,
                             .weight = c.units.parameter(p.k_norm),
                             .table = {scratch.cosine, scratch.sine},
                             .epsilon = epsilon});
  } else {
    const Tensor rotated = rotated_heads(saved.qkv, c.sizes);
    c.ops.rope_forward(rotated, rotated, {scratch.cosine, scratch.sine});
  }
}

/// work(), named in the timeline.
template <class Work>
void timed(const Context& c, const char* name, const Work& work) {
  device::timed(c.device.timeline(), c.ops.stream(), {.category = "model", .what = name}, work);
}

void attend(const Context& c, BlockActivations& saved) {
  timed(c, "attention forward",
        [&] { c.attention.forward(sequence::AttentionKind(), saved.heads, saved.attention, saved.lse); });
}

/// middle = x + what attention adds; the slice of normed is that of middle. Enters the unit of the MLP.
void join_attention(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  linear_forward_partial(c, p.o, scratch.delta, as_matrix(saved.attention));
  c.tp.reduce(scratch.delta);
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
  c.tp.gather(scratch.dx);
  linear_backward_input(c, p.o, as_matrix(scratch.dattention), scratch.dx);

  const parallel::SequenceAttention::Heads gradients = split_heads(scratch.qkv, c.sizes);
  timed(c, "attention backward", [&] {
    c.attention.backward(sequence::AttentionKind(), saved.heads, saved.attention, saved.lse, scratch.dattention,
                         gradients);
  });
  c.ops.rms_norm_apply({.y = c.tp.slice(scratch.normed),
                        .x = saved.x,
                        .rstd = saved.input_rstd,
                        .weight = c.units.parameter(p.input_norm)});
  c.tp.start_gather(scratch.normed);  // beside the gradients of queries, keys and values
  if (p.q_norm.exists()) {
    const parallel::SequenceAttention::Heads raw = split_heads(saved.qkv, c.sizes);
    c.ops.norm_rope_backward({.din = gradients.q,
                              .dweight = c.units.accumulated_gradient(p.q_norm),
                              .dout = gradients.q,
                              .in = raw.q,
                              .rstd = saved.q_rstd,
                              .weight = c.units.parameter(p.q_norm),
                              .table = {scratch.cosine, scratch.sine}});
    c.ops.norm_rope_backward({.din = gradients.k,
                              .dweight = c.units.accumulated_gradient(p.k_norm),
                              .dout = gradients.k,
                              .in = raw.k,
                              .rstd = saved.k_rstd,
                              .weight = c.units.parameter(p.k_norm),
                              .table = {scratch.cosine, scratch.sine}});
  } else {
    const Tensor rotated = rotated_heads(scratch.qkv, c.sizes);
    c.ops.rope_backward(rotated, rotated, {scratch.cosine, scratch.sine});
  }

  linear_backward_input(c, p.qkv, scratch.dnormed, scratch.qkv);
  c.tp.finish();
  c.tp.start_reduce(scratch.dnormed, 0, scratch.dnormed.shape[0]);  // beside the weight gradients
  linear_backward_weight(c, p.o, scratch.dx, as_matrix(saved.attention));
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
  c.tp.reduce(scratch.delta);
}

void mlp_backward(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  const bool recomputes = saved.gate_up.empty();
  c.tp.gather(scratch.dx);
  c.ops.rms_norm_apply({.y = c.tp.slice(scratch.normed),
                        .x = saved.middle,
                        .rstd = saved.middle_rstd,
                        .weight = c.units.parameter(p.post_attention_norm)});
  c.tp.start_gather(scratch.normed);  // beside the first gradients
  if (recomputes) c.tp.finish();
  for_each_tile(scratch, [&](std::int64_t begin, std::int64_t count) {
    const Tensor gate_up = gate_up_of(saved, scratch, begin, count), act = scratch.act.rows(0, count);
    const Tensor normed = scratch.normed.rows(begin, count), dnormed = scratch.dnormed.rows(begin, count);
    const Tensor dx = scratch.dx.rows(begin, count);
    if (recomputes) linear_forward(c, p.gate_up, gate_up, normed, begin);
    linear_backward_input(c, p.down, act, dx, begin);
    c.ops.swiglu_backward(gate_up, act, act, gate_up);
    linear_backward_input(c, p.gate_up, dnormed, gate_up, begin);
    c.tp.finish();
    c.tp.start_reduce(scratch.dnormed, begin, count);  // beside the weight gradients
    linear_backward_weight(c, p.down, dx, act, begin);
    linear_backward_weight(c, p.gate_up, gate_up, normed, begin);
    c.tp.finish();
  });
}

/// Columns of a tensor that others follow in the same memory, so that they are aligned.
std::int64_t aligned(std::int64_t num_elements) { return (num_elements + 127) / 128 * 128; }

void take_input(BlockActivations& a, device::Arena& arena, const Sizes& s) {
  a.x = take(arena, s.compute, {s.slice_tokens(), s.hidden});
  a.input_rstd = take(arena, DType::float32, {s.slice_tokens()});
}

void take_products(BlockActivations& a, device::Arena& arena, const Sizes& s) {
  a.qkv = take(arena, s.compute, {s.tokens, s.qkv_columns()});
  a.attention = take(arena, s.compute, {s.tokens, s.q_heads, s.head_dim});
  a.lse = take(arena, DType::float32, {s.tokens, s.q_heads});
}

void take_gate_up(BlockActivations& a, device::Arena& arena, const Sizes& s) {
  a.gate_up = take(arena, s.compute, {s.tokens, 2 * s.mlp});
}

void take_followers(BlockActivations& a, device::Arena& arena, const Sizes& s, bool qk_norm) {
  if (qk_norm) {
    a.heads.q = take(arena, s.compute, {s.tokens, s.q_heads, s.head_dim});
    a.heads.k = take(arena, s.compute, {s.tokens, s.kv_heads, s.head_dim});
    a.q_rstd = take(arena, DType::float32, {s.tokens, s.q_heads});
    a.k_rstd = take(arena, DType::float32, {s.tokens, s.kv_heads});
  }
  a.middle = take(arena, s.compute, {s.slice_tokens(), s.hidden});
  a.middle_rstd = take(arena, DType::float32, {s.slice_tokens()});
}

/// What attention reads of the fused product, once both are there.
void point_heads(BlockActivations& a, const Sizes& s, bool qk_norm) {
  const parallel::SequenceAttention::Heads fused = split_heads(a.qkv, s);
  a.heads.v = fused.v;
  if (qk_norm) return;
  a.heads.q = fused.q;
  a.heads.k = fused.k;
}

}  // namespace

ActivationPolicy activation_policy(const config::Train& train, device::Kind kind) {
  using Location = ActivationPolicy::Location;
  const Location elsewhere = kind == device::Kind::cpu ? Location::file : Location::host;
  return {.checkpointing = train.activation_checkpointing,
          .mlp_tile_tokens = train.mlp_tile_tokens > 0 ? train.mlp_tile_tokens : INT64_MAX,
          .location = train.activation_offload ? elsewhere : Location::device};
}

BlockActivations take_activations(device::Arena& arena, const Sizes& s, bool qk_norm) {
  return take_kept_activations(arena, s, qk_norm, {}, {});
}

BlockActivations take_shared_activations(device::Arena& arena, const Sizes& s, bool qk_norm,
                                         const ActivationPolicy& policy) {
  BlockActivations a;
  if (!policy.keeps_products()) take_products(a, arena, s);
  if (!policy.keeps_all()) take_followers(a, arena, s, qk_norm);
  return a;
}

BlockActivations take_kept_activations(device::Arena& arena, const Sizes& s, bool qk_norm,
                                       const ActivationPolicy& policy, const BlockActivations& shared) {
  BlockActivations a = shared;
  take_input(a, arena, s);
  if (policy.keeps_products()) {
    take_products(a, arena, s);
    take_gate_up(a, arena, s);
  }
  if (policy.keeps_all()) take_followers(a, arena, s, qk_norm);
  point_heads(a, s, qk_norm);
  return a;
}

std::vector<Tensor> kept_tensors(const BlockActivations& a, const ActivationPolicy& policy) {
  std::vector<Tensor> kept = {a.x, a.input_rstd};
  if (policy.keeps_products()) kept.insert(kept.end(), {a.qkv, a.attention, a.lse, a.gate_up});
  if (policy.keeps_all()) {
    if (!a.q_rstd.empty()) kept.insert(kept.end(), {a.heads.q, a.heads.k, a.q_rstd, a.k_rstd});
    kept.insert(kept.end(), {a.middle, a.middle_rstd});
  }
  return kept;
}

BlockActivations first_rows(BlockActivations all, std::int64_t num_tokens, int token_slices) {
  using A = BlockActivations;
  using H = parallel::SequenceAttention::Heads;
  narrow(all, num_tokens / token_slices, {&A::x, &A::input_rstd, &A::middle, &A::middle_rstd});
  narrow(all, num_tokens, {&A::qkv, &A::q_rstd, &A::k_rstd, &A::attention, &A::lse, &A::gate_up});
  narrow(all.heads, num_tokens, {&H::q, &H::k, &H::v});
  return all;
}

BlockScratch take_forward_scratch(device::Arena& arena, const Sizes& s) {
  BlockScratch b;
  b.normed = take(arena, s.compute, {s.tokens, s.hidden});
  b.act = take(arena, s.compute, {s.tokens, s.mlp});
  b.delta = take(arena, s.partial, {s.tokens, s.hidden});
  b.cosine = take(arena, DType::float32, {s.tokens, s.head_dim / 2});
  b.sine = take(arena, DType::float32, {s.tokens, s.head_dim / 2});
  return b;
}

BlockScratch take_scratch(device::Arena& arena, device::Arena& tp_sums, const Sizes& s,
                          const ActivationPolicy& policy) {
  BlockScratch b;
  const std::int64_t tile_tokens = std::min(policy.mlp_tile_tokens, s.tokens);
  const Tensor normed = take(arena, s.compute, {s.tokens * std::max(s.hidden, s.q_columns())});
  b.normed = normed.rows(0, s.tokens * s.hidden).view({s.tokens, s.hidden});
  b.dattention = normed.rows(0, s.tokens * s.q_columns()).view({s.tokens, s.q_heads, s.head_dim});

  const std::int64_t act_elements = aligned(tile_tokens * s.mlp);
  const std::int64_t gate_up_elements = policy.keeps_products() ? 0 : tile_tokens * 2 * s.mlp;
  const std::int64_t qkv_elements = s.tokens * s.qkv_columns();
  const Tensor wide = take(arena, s.compute, {std::max(act_elements + gate_up_elements, qkv_elements)});
  b.act = wide.rows(0, tile_tokens * s.mlp).view({tile_tokens, s.mlp});
  if (gate_up_elements > 0) b.gate_up = wide.rows(act_elements, gate_up_elements).view({tile_tokens, 2 * s.mlp});
  b.qkv = wide.rows(0, qkv_elements).view({s.tokens, s.qkv_columns()});

  b.delta = take(tp_sums, s.partial, {s.tokens, s.hidden});
  b.dnormed = b.delta;
  b.dx = take(arena, s.compute, {s.tokens, s.hidden});
  b.cosine = take(arena, DType::float32, {s.tokens, s.head_dim / 2});
  b.sine = take(arena, DType::float32, {s.tokens, s.head_dim / 2});
  return b;
}

BlockScratch first_rows(BlockScratch all, std::int64_t num_tokens) {
  using S = BlockScratch;
  narrow(all, num_tokens, {&S::normed, &S::qkv, &S::delta, &S::dx, &S::dnormed, &S::dattention, &S::cosine, &S::sine});
  narrow(all, std::min(num_tokens, all.act.shape[0]), {&S::act, &S::gate_up});
  return all;
}

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
  project(c, p, saved, scratch);
  rotate(c, p, saved, scratch);
  attend(c, saved);
  join_attention(c, p, saved, scratch);
  c.tp.gather(scratch.normed);
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
  const bool is_rotated_in_place = !p.q_norm.exists();
  if (!keeps_products || !is_rotated_in_place) rotate(c, p, saved, scratch);
  if (!keeps_products) attend(c, saved);
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
