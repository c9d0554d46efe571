// SPDX-License-Identifier: Apache-2.0
#include "sft/model/block.hpp"

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

Tensor as_matrix(const Tensor& x) { return x.view({x.shape[0], x.row_elements()}); }

/// Leaves the first rows of each of `members` that has memory.
template <class Buffers>
void narrow(Buffers& buffers, std::int64_t num_rows, std::initializer_list<Tensor Buffers::*> members) {
  for (Tensor Buffers::*member : members) {
    Tensor& tensor = buffers.*member;
    if (!tensor.empty()) tensor = tensor.rows(0, num_rows);
  }
}

void attention_forward(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  const auto epsilon = static_cast<float>(c.config.rms_norm_eps);
  linear_forward(c, p.qkv, saved.qkv, scratch.normed);

  if (p.q_norm.exists()) {
    const parallel::SequenceAttention::Heads raw = split_heads(saved.qkv, c.sizes);
    c.ops.norm_rope_forward(saved.heads.q, saved.q_rstd, raw.q, c.units.parameter(p.q_norm), scratch.cosine,
                            scratch.sine, epsilon);
    c.ops.norm_rope_forward(saved.heads.k, saved.k_rstd, raw.k, c.units.parameter(p.k_norm), scratch.cosine,
                            scratch.sine, epsilon);
  } else {
    const Tensor rotated = rotated_heads(saved.qkv, c.sizes);
    c.ops.rope_forward(rotated, rotated, scratch.cosine, scratch.sine);
  }
  c.attention.forward(saved.heads, saved.attention, saved.lse);

  linear_forward_partial(c, p.o, scratch.delta, as_matrix(saved.attention));
  c.tp.sum(scratch.delta);
}

void attention_backward(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  linear_backward_input(c, p.o, as_matrix(scratch.dattention), scratch.dx);

  const parallel::SequenceAttention::Heads gradients = split_heads(scratch.qkv, c.sizes);
  c.attention.backward(saved.heads, saved.attention, saved.lse, scratch.dattention, gradients);
  if (p.q_norm.exists()) {
    const parallel::SequenceAttention::Heads raw = split_heads(saved.qkv, c.sizes);
    c.ops.norm_rope_backward(gradients.q, c.units.accumulated_gradient(p.q_norm), gradients.q, raw.q, saved.q_rstd,
                             c.units.parameter(p.q_norm), scratch.cosine, scratch.sine);
    c.ops.norm_rope_backward(gradients.k, c.units.accumulated_gradient(p.k_norm), gradients.k, raw.k, saved.k_rstd,
                             c.units.parameter(p.k_norm), scratch.cosine, scratch.sine);
  } else {
    const Tensor rotated = rotated_heads(scratch.qkv, c.sizes);
    c.ops.rope_backward(rotated, rotated, scratch.cosine, scratch.sine);
  }

  linear_backward_input(c, p.qkv, scratch.dnormed, scratch.qkv);
  c.tp.start_sum(scratch.dnormed);  // beside the weight gradients
  linear_backward_weight(c, p.o, scratch.dx, as_matrix(saved.attention));
  c.ops.rms_norm_apply(scratch.normed, saved.x, saved.input_rstd, c.units.parameter(p.input_norm));
  linear_backward_weight(c, p.qkv, scratch.qkv, scratch.normed);
  c.tp.finish_sum();
}

void mlp_forward(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  linear_forward(c, p.gate_up, saved.gate_up, scratch.normed);
  c.ops.swiglu_forward(scratch.act, saved.gate_up);
  linear_forward_partial(c, p.down, scratch.delta, scratch.act);
  c.tp.sum(scratch.delta);
}

void mlp_backward(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  linear_backward_input(c, p.down, scratch.dact, scratch.dx);
  c.ops.swiglu_backward(saved.gate_up, scratch.act, scratch.dact, saved.gate_up);
  linear_backward_input(c, p.gate_up, scratch.dnormed, saved.gate_up);
  c.tp.start_sum(scratch.dnormed);  // beside the weight gradients
  linear_backward_weight(c, p.down, scratch.dx, scratch.act);
  c.ops.rms_norm_apply(scratch.normed, saved.middle, saved.middle_rstd, c.units.parameter(p.post_attention_norm));
  linear_backward_weight(c, p.gate_up, saved.gate_up, scratch.normed);
  c.tp.finish_sum();
}

}  // namespace

BlockActivations take_activations(device::Arena& arena, const Sizes& s, bool qk_norm) {
  BlockActivations a;
  a.x = take(arena, s.compute, {s.tokens, s.hidden});
  a.input_rstd = take(arena, DType::float32, {s.tokens});
  a.qkv = take(arena, s.compute, {s.tokens, s.qkv_columns()});
  a.heads = split_heads(a.qkv, s);
  if (qk_norm) {
    a.heads.q = take(arena, s.compute, {s.tokens, s.q_heads, s.head_dim});
    a.heads.k = take(arena, s.compute, {s.tokens, s.kv_heads, s.head_dim});
    a.q_rstd = take(arena, DType::float32, {s.tokens, s.q_heads});
    a.k_rstd = take(arena, DType::float32, {s.tokens, s.kv_heads});
  }
  a.attention = take(arena, s.compute, {s.tokens, s.q_heads, s.head_dim});
  a.lse = take(arena, DType::float32, {s.tokens, s.q_heads});
  a.middle = take(arena, s.compute, {s.tokens, s.hidden});
  a.middle_rstd = take(arena, DType::float32, {s.tokens});
  a.gate_up = take(arena, s.compute, {s.tokens, 2 * s.mlp});
  return a;
}

BlockActivations first_rows(BlockActivations all, std::int64_t num_tokens) {
  using A = BlockActivations;
  using H = parallel::SequenceAttention::Heads;
  narrow(all, num_tokens,
         {&A::x, &A::input_rstd, &A::qkv, &A::q_rstd, &A::k_rstd, &A::attention, &A::lse, &A::middle, &A::middle_rstd,
          &A::gate_up});
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

BlockScratch take_scratch(device::Arena& arena, const Sizes& s) {
  BlockScratch b = take_forward_scratch(arena, s);
  b.qkv = take(arena, s.compute, {s.tokens, s.qkv_columns()});
  b.dx = take(arena, s.compute, {s.tokens, s.hidden});
  b.dnormed = take(arena, s.partial, {s.tokens, s.hidden});
  b.dact = take(arena, s.compute, {s.tokens, s.mlp});
  b.dattention = take(arena, s.compute, {s.tokens, s.q_heads, s.head_dim});
  return b;
}

BlockScratch first_rows(BlockScratch all, std::int64_t num_tokens) {
  using S = BlockScratch;
  narrow(
      all, num_tokens,
      {&S::normed, &S::qkv, &S::act, &S::delta, &S::dx, &S::dnormed, &S::dact, &S::dattention, &S::cosine, &S::sine});
  return all;
}

void block_forward(const Context& c, const BlockParameters& p, const Tensor& previous, BlockActivations& saved,
                   BlockScratch& scratch) {
  const auto epsilon = static_cast<float>(c.config.rms_norm_eps);
  const Tensor input_norm = c.units.parameter(p.input_norm);
  if (previous.empty()) {
    c.ops.rms_norm_forward(scratch.normed, saved.input_rstd, saved.x, input_norm, epsilon);
  } else {
    c.ops.add_rms_norm_forward(saved.x, scratch.normed, saved.input_rstd, previous, scratch.delta, input_norm, epsilon);
  }
  attention_forward(c, p, saved, scratch);
  c.ops.add_rms_norm_forward(saved.middle, scratch.normed, saved.middle_rstd, saved.x, scratch.delta,
                             c.units.parameter(p.post_attention_norm), epsilon);
  mlp_forward(c, p, saved, scratch);
}

void block_backward(const Context& c, const BlockParameters& p, BlockActivations& saved, BlockScratch& scratch) {
  mlp_backward(c, p, saved, scratch);
  c.ops.rms_norm_backward(scratch.dx, c.units.accumulated_gradient(p.post_attention_norm), scratch.dnormed,
                          saved.middle, saved.middle_rstd, c.units.parameter(p.post_attention_norm), scratch.dx);
  attention_backward(c, p, saved, scratch);
  c.ops.rms_norm_backward(scratch.dx, c.units.accumulated_gradient(p.input_norm), scratch.dnormed, saved.x,
                          saved.input_rstd, c.units.parameter(p.input_norm), scratch.dx);
}

}  // namespace sft::model
