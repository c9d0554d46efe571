// SPDX-License-Identifier: Apache-2.0
#include "sft/model/layers/attention.hpp"

#include <algorithm>
#include <cstdint>

#include "model/layers/attention_heads.hpp"
#include "model/linear/declare.hpp"
#include "model/linear/fp8_products.hpp"
#include "sft/model/block_buffers.hpp"
#include "sft/model/layers/cached_attention.hpp"
#include "sft/model/linear/linear.hpp"

namespace sft::model {

namespace {

/// Calls work(group, its tensors) for the groups, one after the other.
template <class Work>
void for_each_group(const AttentionTensors& own, const Work& work) {
  for (std::int64_t number = 0; number < own.num_groups; ++number) {
    const HeadGroup group{number, own.num_groups};
    work(group, own.of_group(group));
  }
}

/// own.qkv = queries, keys and values of the group.
void project(const Context& c, const LinearRows& layer, const HeadGroup& group, const AttentionTensors& own) {
  std::int64_t first_row = 0, first_column = 0;
  for (const std::int64_t num_columns : {own.sizes.q_columns(), own.sizes.kv_columns(), own.sizes.kv_columns()}) {
    layer.forward(c, {first_row + group.number * num_columns, num_columns}, own.qkv.columns(first_column, num_columns));
    first_row += group.count * num_columns;
    first_column += num_columns;
  }
}

/// Where several ranks hold the same key/value heads, each has a term of their gradients: the last columns of dqkv. In
/// 8-bit floats the sum of rounded terms is not the rounded sum, so the first of these ranks gets the sum here, and the
/// others zeros. In the memory of scratch.dnormed, which comes next.
void sum_before_rounding(const Context& c, const HeadSizes& all, const Tensor& dqkv, const BlockScratch& scratch) {
  if (c.fp8 == nullptr || c.tp.num_kv_replicas() == 1) return;
  const std::int64_t num_columns = 2 * all.kv_columns();
  const Tensor terms = dqkv.columns(all.q_columns(), num_columns);
  const Tensor memory = scratch.dnormed.view({scratch.dnormed.num_elements()});
  const std::int64_t num_tokens = terms.shape[0], most = memory.shape[0] / num_columns;
  for (std::int64_t begin = 0; begin < num_tokens; begin += most) {
    const std::int64_t count = std::min(most, num_tokens - begin);
    const Tensor sums = memory.rows(0, count * num_columns).view({count, num_columns});
    c.ops.run(ops::Copy{sums, terms.rows(begin, count)});
    c.tp.sum_over_kv_replicas(sums);
    if (c.tp.kv_replica() == 0) c.ops.run(ops::Copy{terms.rows(begin, count), sums});
  }
  if (c.tp.kv_replica() != 0) c.ops.run(ops::Fill{terms, 0.0F});
}

/// The inputs of attention of the group: rotated heads and, where the layer has them, its sinks.
parallel::SequenceAttention::Heads inputs_of(const Context& c, const AttentionParameters& p, const HeadGroup& group,
                                             const AttentionTensors& own) {
  parallel::SequenceAttention::Heads heads = own.heads;
  if (p.plan.has_sinks) heads.sinks = rows_of_group(group, c.units.parameter(p.sinks));
  return heads;
}

}  // namespace

Attention::Attention(UnitBuilder& unit, const config::Model& m, const LayerPlan& plan, const std::string& path)
    : p_{.plan = plan}, head_dim_(m.head_dim) {
  using parallel::Init;
  using parallel::TpSplit;
  const std::string prefix = path + ".";
  const std::int64_t q_rows = m.num_attention_heads * m.head_dim, kv_heads = m.num_key_value_heads;
  const Shape q{q_rows, m.hidden_size, TpSplit::rows},
      kv{kv_heads * m.head_dim, m.hidden_size, TpSplit::kv_rows, kv_heads};
  linears_.push_back(declare_linear(unit, {{prefix + "q_proj", q}, {prefix + "k_proj", kv}, {prefix + "v_proj", kv}}));
  linears_.push_back(declare_linear(unit, {{prefix + "o_proj", {m.hidden_size, q_rows, TpSplit::columns}}}));
  if (m.attention_output_bias) declare_bias(unit, linears_[1]);
  if (m.attention_bias) declare_bias(unit, linears_[0]);
  if (plan.has_sinks) {
    p_.sinks = unit.vector(prefix + "sinks", {m.num_attention_heads, 0, TpSplit::rows}, Init::normal);
    unit.parameter(p_.sinks).is_score_vector = true;
  }
  if (plan.qk_norm == LayerPlan::QkNorm::none) return;
  const bool is_of_all = plan.qk_norm == LayerPlan::QkNorm::all_heads;
  const Shape of_head{m.head_dim, 0, TpSplit::partial};
  p_.q_norm = unit.vector(prefix + "q_norm.weight", is_of_all ? Shape{q.rows, 0, q.split} : of_head, unit.norm_init());
  p_.k_norm = unit.vector(prefix + "k_norm.weight", is_of_all ? Shape{kv.rows, 0, kv.split, kv_heads} : of_head,
                          unit.norm_init());
}

HeadSizes Attention::heads(int tp_size) const {
  const auto heads_of = [&](const LinearMember& member) { return member.shape.local_rows(tp_size) / head_dim_; };
  return {heads_of(qkv().members[0]), heads_of(qkv().members[1]), head_dim_};
}

std::vector<SublayerTensor> Attention::tensors(const Sizes& s, const ActivationPolicy& policy) const {
  const HeadSizes all = heads(s.tp_size), group = all.of_group(policy.head_groups);
  std::vector<SublayerTensor> tensors = {
      {"qkv", Lifetime::products, form_of(s.compute, {s.tokens, group.qkv_columns()})},
      {"out", Lifetime::products, form_of(s.compute, {s.tokens, all.q_heads, group.head_dim})},
      {"lse", Lifetime::products, form_of(DType::float32, {s.tokens, all.q_heads})},
      {"dqkv", Lifetime::backward, form_of(s.compute, {s.tokens, all.qkv_columns()})},
      {.name = "dattention",
       .lifetime = Lifetime::backward,
       .tensor = form_of(s.compute, {s.tokens, group.q_heads, group.head_dim}),
       .place = policy.head_groups == 1 ? ScratchPlace::over_normed : ScratchPlace::alone}};
  if (p_.plan.qk_norm == LayerPlan::QkNorm::none) return tensors;
  tensors.push_back({"normed_q", Lifetime::followers, form_of(s.compute, {s.tokens, group.q_heads, group.head_dim})});
  tensors.push_back({"normed_k", Lifetime::followers, form_of(s.compute, {s.tokens, group.kv_heads, group.head_dim})});
  if (p_.plan.qk_norm == LayerPlan::QkNorm::heads) {
    tensors.push_back({"q_rstd", Lifetime::followers, form_of(DType::float32, {s.tokens, group.q_heads})});
    tensors.push_back({"k_rstd", Lifetime::followers, form_of(DType::float32, {s.tokens, group.kv_heads})});
    return tensors;
  }
  for (const char* name : {"q_rstd", "k_rstd"}) {
    tensors.push_back({name, Lifetime::followers, form_of(DType::float32, {s.tokens})});
  }
  tensors.push_back({.name = "row_sums",
                     .lifetime = Lifetime::pass,
                     .tensor = form_of(DType::float32, {2 * s.tokens}),
                     .rows_of_token = 2,
                     .place = ScratchPlace::tp_sums});
  return tensors;
}

void Attention::fit_shapes(const Sizes& sizes, ops::Shapes& shapes) const {
  const HeadSizes all = heads(sizes.tp_size);
  shapes.q_heads = std::max(shapes.q_heads, all.q_heads);
  shapes.kv_heads = std::max(shapes.kv_heads, all.kv_heads);
  shapes.head_dim = std::max(shapes.head_dim, all.head_dim);
}

void Attention::fit_fp8(const Sizes& sizes, const ActivationPolicy& policy, Fp8Buffers& buffers) const {
  Sublayer::fit_fp8(sizes, policy, buffers);
  if (policy.head_groups > 1) {
    buffers.fit_slices(sizes.tokens, heads(sizes.tp_size).qkv_columns(), sizes.hidden);
  }
}

void Attention::attend(const Context& c, const HeadGroup& group, const AttentionTensors& own) const {
  const parallel::SequenceAttention::Heads heads = inputs_of(c, p_, group, own);
  timed(c, "attention forward", [&] { c.attention.forward(p_.plan.attention, heads, own.out, own.lse); });
}

void Attention::attend_to_all(const Context& c, const AttentionTensors& own, BlockScratch& scratch) const {
  if (own.num_groups == 1) {
    linear_forward(c, qkv(), own.qkv, scratch.normed);
    rotate(c, p_, own, scratch);
    return attend(c, {0, 1}, own);
  }
  const LinearRows rows(c, qkv(), scratch.normed);
  for_each_group(own, [&](const HeadGroup& group, const AttentionTensors& part) {
    project(c, rows, group, part);
    rotate(c, p_, part, scratch);
    attend(c, group, part);
  });
}

void Attention::differentiate_group(const Context& c, const HeadGroup& group, const AttentionTensors& own,
                                    BlockScratch& scratch, parallel::SequenceAttention::Heads gradients,
                                    const std::function<void()>& behind) const {
  const parallel::SequenceAttention::Heads heads = inputs_of(c, p_, group, own);
  if (p_.plan.has_sinks) gradients.sinks = rows_of_group(group, c.units.accumulated_gradient(p_.sinks));
  timed(c, "attention backward",
        [&] { c.attention.backward(p_.plan.attention, heads, own.out, own.lse, own.dattention, gradients); });
  behind();
  rotate_backward(c, p_, group, own, scratch, gradients);
}

void Attention::differentiate_groups(const Context& c, const AttentionTensors& own, BlockScratch& scratch,
                                     GradientCodes& codes_of_o) const {
  const parallel::SequenceAttention::Heads all = heads_of(own.dqkv, heads(c.sizes.tp_size));
  const LinearRows rows(c, qkv(), scratch.normed);
  const LinearColumns columns(c, o(), scratch.dbranch, &codes_of_o);
  for_each_group(own, [&](const HeadGroup& group, const AttentionTensors& part) {
    project(c, rows, group, part);
    rotate(c, p_, part, scratch);
    columns.backward_input(c, group.number * part.sizes.q_columns(), as_matrix(part.dattention));
    differentiate_group(c, group, part, scratch,
                        {heads_of_group(group, all.q), heads_of_group(group, all.k), heads_of_group(group, all.v)},
                        [] {});
  });
}

void Attention::forward(const Context& c, SublayerTensors& own, BlockScratch& scratch) const {
  prepare_magnitudes(c, qkv());
  prepare_magnitudes(c, o());
  const AttentionTensors tensors(own, heads(c.sizes.tp_size), p_.plan);
  attend_to_all(c, tensors, scratch);
  linear_forward_partial(c, o(), scratch.delta, as_matrix(tensors.out));
}

void Attention::recompute(const Context& c, const ActivationPolicy& policy, SublayerTensors& own, BlockScratch& scratch,
                          const std::function<void()>& read_normed, bool gives_delta) const {
  const AttentionTensors tensors(own, heads(c.sizes.tp_size), p_.plan);
  if (!policy.keeps_products()) {
    read_normed();
    attend_to_all(c, tensors, scratch);
  } else {
    norm_heads(c, p_, tensors, scratch);
  }
  if (gives_delta) linear_forward_partial(c, o(), scratch.delta, as_matrix(tensors.out));
}

void Attention::backward(const Context& c, SublayerTensors& all, BlockScratch& scratch,
                         const std::function<void()>& start_normed) const {
  const AttentionTensors own(all, heads(c.sizes.tp_size), p_.plan);
  GradientCodes of_qkv = gradient_codes(c, LayerOfTwo::first), of_o = gradient_codes(c, LayerOfTwo::second);
  if (own.num_groups > 1) {
    start_normed();
    c.tp.finish();
    differentiate_groups(c, own, scratch, of_o);
  } else {
    linear_backward_input(c, o(), as_matrix(own.dattention), scratch.dbranch, 0, &of_o);
    // normed comes in the memory of dattention, beside the gradients of queries, keys and values
    differentiate_group(c, {0, 1}, own, scratch, heads_of(own.dqkv, own.sizes), start_normed);
  }
  sum_before_rounding(c, heads(c.sizes.tp_size), own.dqkv, scratch);

  const auto differentiate_input = [&] { linear_backward_input(c, qkv(), scratch.dnormed, own.dqkv, 0, &of_qkv); };
  const auto add_weight_gradients = [&] {
    linear_backward_weight(c, o(), scratch.dbranch, as_matrix(own.out), 0, &of_o);
    linear_backward_weight(c, qkv(), own.dqkv, scratch.normed, 0, &of_qkv);
  };
  if (scratch.shares_branch_memory) {
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

std::vector<SublayerTensor> Attention::text_state(const Sizes& s, std::int64_t max_tokens) const {
  const HeadSizes all = heads(s.tp_size);
  const Tensor form = form_of(s.compute, {max_tokens, all.kv_heads, all.head_dim});
  return {{"keys", Lifetime::input, form}, {"values", Lifetime::input, form}};
}

void Attention::generate(const Context& c, SublayerTensors& own, BlockScratch& scratch, const TextSoFar& text) const {
  text.attention.use({text.state["keys"], text.state["values"]});
  forward(c, own, scratch);
}

double Attention::core_flops(const TokenCounts& tokens) const {
  return 6.0 * static_cast<double>(qkv().members[0].shape.rows) *
         (tokens.length_squares - tokens.masked_squares[p_.plan.attention]);
}

}  // namespace sft::model
