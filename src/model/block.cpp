#include "sft/model/block.hpp"

namespace sft::model {

namespace {

/// y = x weight^T [+ bias]: the forward pass of a linear layer; weight (N, M), x (T, M), y (T, N).
void linear(const Context& c, Tensor y, const Tensor& x, const Tensor& weight, const Tensor& bias = {}) {
  c.ops.matmul({.a = x, .b = weight, .c = y, .transpose_b = true, .bias = bias});
  c.units.poll();
}

/// dx = dy weight.
void linear_backward_input(const Context& c, Tensor dx, const Tensor& dy, const Tensor& weight) {
  c.ops.matmul({.a = dy, .b = weight, .c = dx});
  c.units.poll();
}

/// dweight (+)= dy^T x.
void linear_backward_weight(const Context& c, const parallel::GradientTarget& dweight, const Tensor& dy,
                            const Tensor& x) {
  c.ops.matmul({.a = dy, .b = x, .c = dweight.tensor, .transpose_a = true, .accumulate = dweight.accumulate});
  c.units.poll();
}

/// Queries, keys and values of a fused (T, (H + 2K) D) tensor.
parallel::SequenceAttention::Heads split_heads(const Tensor& qkv, const Sizes& s) {
  const auto heads = [&](std::int64_t begin, std::int64_t n) {
    return qkv.columns(begin, n * s.head_dim).view({s.tokens, n, s.head_dim});
  };
  return {heads(0, s.q_heads), heads(s.q_columns(), s.kv_heads), heads(s.q_columns() + s.kv_columns(), s.kv_heads)};
}

/// The heads of it that are rotated, queries and keys together: (T, H + K, D).
Tensor rotated_heads(const Tensor& qkv, const Sizes& s) {
  return qkv.columns(0, s.q_columns() + s.kv_columns()).view({s.tokens, s.q_heads + s.kv_heads, s.head_dim});
}

Tensor as_matrix(const Tensor& x) { return x.view({x.shape[0], x.row_elements()}); }

void attention_forward(const Context& c, int unit, const BlockIndex& index, BlockActivations& saved,
                       BlockScratch& scratch) {
  const bool qk_norm = index.q_norm >= 0;
  const auto epsilon = static_cast<float>(c.config.rms_norm_eps);
  const Tensor bias = index.q_bias >= 0 ? c.units.parameter(unit, index.q_bias, 3) : Tensor();
  linear(c, saved.qkv, scratch.normed, c.units.parameter(unit, index.q_weight, 3), bias);

  if (qk_norm) {
    const parallel::SequenceAttention::Heads raw = split_heads(saved.qkv, c.sizes);
    c.ops.norm_rope_forward(saved.heads.q, saved.q_rstd, raw.q, c.units.parameter(unit, index.q_norm), scratch.cosine,
                            scratch.sine, epsilon);
    c.ops.norm_rope_forward(saved.heads.k, saved.k_rstd, raw.k, c.units.parameter(unit, index.k_norm), scratch.cosine,
                            scratch.sine, epsilon);
  } else {
    const Tensor rotated = rotated_heads(saved.qkv, c.sizes);
    c.ops.rope_forward(rotated, rotated, scratch.cosine, scratch.sine);
  }
  c.attention.forward(saved.heads, saved.attention, saved.lse);

  linear(c, scratch.delta, as_matrix(saved.attention), c.units.parameter(unit, index.o_weight));
  c.tp.sum(scratch.delta);
}

void attention_backward(const Context& c, int unit, const BlockIndex& index, BlockActivations& saved,
                        BlockScratch& scratch) {
  linear_backward_input(c, as_matrix(scratch.dattention), scratch.dx, c.units.parameter(unit, index.o_weight));
  linear_backward_weight(c, c.units.gradient(unit, index.o_weight), scratch.dx, as_matrix(saved.attention));

  const parallel::SequenceAttention::Heads gradients = split_heads(scratch.qkv, c.sizes);
  c.attention.backward(saved.heads, saved.attention, saved.lse, scratch.dattention, gradients);
  if (index.q_norm >= 0) {
    const parallel::SequenceAttention::Heads raw = split_heads(saved.qkv, c.sizes);
    c.ops.norm_rope_backward(gradients.q, c.units.accumulated_gradient(unit, index.q_norm), gradients.q, raw.q,
                             saved.q_rstd, c.units.parameter(unit, index.q_norm), scratch.cosine, scratch.sine);
    c.ops.norm_rope_backward(gradients.k, c.units.accumulated_gradient(unit, index.k_norm), gradients.k, raw.k,
                             saved.k_rstd, c.units.parameter(unit, index.k_norm), scratch.cosine, scratch.sine);
  } else {
    const Tensor rotated = rotated_heads(scratch.qkv, c.sizes);
    c.ops.rope_backward(rotated, rotated, scratch.cosine, scratch.sine);
  }

  if (index.q_bias >= 0) c.ops.bias_backward(c.units.accumulated_gradient(unit, index.q_bias, 3), scratch.qkv);
  c.ops.rms_norm_apply(scratch.normed, saved.x, saved.input_rstd, c.units.parameter(unit, index.input_norm));
  linear_backward_weight(c, c.units.gradient(unit, index.q_weight, 3), scratch.qkv, scratch.normed);
  linear_backward_input(c, scratch.dnormed, scratch.qkv, c.units.parameter(unit, index.q_weight, 3));
  c.tp.sum(scratch.dnormed);
}

void mlp_forward(const Context& c, int unit, const BlockIndex& index, BlockActivations& saved, BlockScratch& scratch) {
  linear(c, saved.gate_up, scratch.normed, c.units.parameter(unit, index.gate_weight, 2));
  c.ops.swiglu_forward(scratch.act, saved.gate_up);
  linear(c, scratch.delta, scratch.act, c.units.parameter(unit, index.down_weight));
  c.tp.sum(scratch.delta);
}

void mlp_backward(const Context& c, int unit, const BlockIndex& index, BlockActivations& saved, BlockScratch& scratch) {
  linear_backward_input(c, scratch.dact, scratch.dx, c.units.parameter(unit, index.down_weight));
  c.ops.swiglu_backward(saved.gate_up, scratch.act, scratch.dact, saved.gate_up);
  linear_backward_weight(c, c.units.gradient(unit, index.down_weight), scratch.dx, scratch.act);
  c.ops.rms_norm_apply(scratch.normed, saved.middle, saved.middle_rstd,
                       c.units.parameter(unit, index.post_attention_norm));
  linear_backward_weight(c, c.units.gradient(unit, index.gate_weight, 2), saved.gate_up, scratch.normed);
  linear_backward_input(c, scratch.dnormed, saved.gate_up, c.units.parameter(unit, index.gate_weight, 2));
  c.tp.sum(scratch.dnormed);
}

}  // namespace

BlockActivations take_activations(device::Arena& arena, const Context& context) {
  const Sizes& s = context.sizes;
  BlockActivations a;
  a.x = take(arena, s.compute, {s.tokens, s.hidden});
  a.input_rstd = take(arena, DType::float32, {s.tokens});
  a.qkv = take(arena, s.compute, {s.tokens, s.qkv_columns()});
  a.heads = split_heads(a.qkv, s);
  if (context.config.qk_norm) {
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

BlockScratch take_scratch(device::Arena& arena, const Context& context) {
  const Sizes& s = context.sizes;
  const DType partial = context.tp.partial_dtype(s.compute);
  BlockScratch b;
  b.normed = take(arena, s.compute, {s.tokens, s.hidden});
  b.qkv = take(arena, s.compute, {s.tokens, s.qkv_columns()});
  b.act = take(arena, s.compute, {s.tokens, s.mlp});
  b.delta = take(arena, partial, {s.tokens, s.hidden});
  b.dx = take(arena, s.compute, {s.tokens, s.hidden});
  b.dnormed = take(arena, partial, {s.tokens, s.hidden});
  b.dact = take(arena, s.compute, {s.tokens, s.mlp});
  b.dattention = take(arena, s.compute, {s.tokens, s.q_heads, s.head_dim});
  b.cosine = take(arena, DType::float32, {s.tokens, s.head_dim / 2});
  b.sine = take(arena, DType::float32, {s.tokens, s.head_dim / 2});
  return b;
}

void block_forward(const Context& c, int unit, const Tensor& previous, BlockActivations& saved, BlockScratch& scratch) {
  const BlockIndex index = block_index(c.config);
  const auto epsilon = static_cast<float>(c.config.rms_norm_eps);
  const Tensor input_norm = c.units.parameter(unit, index.input_norm);
  if (previous.empty()) {
    c.ops.rms_norm_forward(scratch.normed, saved.input_rstd, saved.x, input_norm, epsilon);
  } else {
    c.ops.add_rms_norm_forward(saved.x, scratch.normed, saved.input_rstd, previous, scratch.delta, input_norm, epsilon);
  }
  attention_forward(c, unit, index, saved, scratch);
  c.ops.add_rms_norm_forward(saved.middle, scratch.normed, saved.middle_rstd, saved.x, scratch.delta,
                             c.units.parameter(unit, index.post_attention_norm), epsilon);
  mlp_forward(c, unit, index, saved, scratch);
}

void block_backward(const Context& c, int unit, BlockActivations& saved, BlockScratch& scratch) {
  const BlockIndex index = block_index(c.config);
  mlp_backward(c, unit, index, saved, scratch);
  c.ops.rms_norm_backward(scratch.dx, c.units.accumulated_gradient(unit, index.post_attention_norm), scratch.dnormed,
                          saved.middle, saved.middle_rstd, c.units.parameter(unit, index.post_attention_norm),
                          scratch.dx);
  attention_backward(c, unit, index, saved, scratch);
  c.ops.rms_norm_backward(scratch.dx, c.units.accumulated_gradient(unit, index.input_norm), scratch.dnormed, saved.x,
                          saved.input_rstd, c.units.parameter(unit, index.input_norm), scratch.dx);
}

}  // namespace sft::model
