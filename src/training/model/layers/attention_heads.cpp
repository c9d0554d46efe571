// SPDX-License-Identifier: Apache-2.0
#include "model/layers/attention_heads.hpp"

#include <array>

#include "sft/model/block_buffers.hpp"
#include "sft/model/linear/linear.hpp"

namespace sft::model {

namespace {

/// Calls rotate(heads, rope) for the heads in a fused (T, (H + 2K) D) tensor that are rotated: queries and keys
/// together (T, H + K, D), unless they have other tables.
template <class Rotate>
void for_each_rotated(const LayerPlan& plan, const Tensor& qkv, const HeadSizes& s, const Rotate& rotate) {
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

/// Norms that all ranks of tp share: of the queries and of the keys, and the sum over tp that each needs.
struct SharedNorm {
  const parallel::ParameterGroup& weight;
  Tensor heads, raw, gradient;  ///< as matrices (T, n D): what comes out, what goes in, and its gradient
  Tensor rstd, sums;            ///< (T) float32
};

std::array<SharedNorm, 2> shared_norms(const AttentionParameters& p, const AttentionTensors& own) {
  const parallel::SequenceAttention::Heads raw = heads_of(own.qkv, own.sizes);
  const parallel::SequenceAttention::Heads gradients =
      own.dqkv.empty() ? parallel::SequenceAttention::Heads{} : heads_of(own.dqkv, own.sizes);
  const auto matrix = [](const Tensor& heads) { return heads.empty() ? Tensor() : as_matrix(heads); };
  const std::int64_t num_tokens = own.qkv.shape[0];
  return {SharedNorm{p.q_norm, as_matrix(own.heads.q), as_matrix(raw.q), matrix(gradients.q), own.q_rstd,
                     own.row_sums.rows(0, num_tokens)},
          SharedNorm{p.k_norm, as_matrix(own.heads.k), as_matrix(raw.k), matrix(gradients.k), own.k_rstd,
                     own.row_sums.rows(num_tokens, num_tokens)}};
}

/// The columns of all ranks. Heads that several ranks hold count each time, as in the sums.
std::int64_t columns_of_all_ranks(const Context& c, const SharedNorm& norm) { return c.tp.size() * norm.raw.shape[1]; }

void norm_all_heads(const Context& c, const AttentionParameters& p, const AttentionTensors& own) {
  const std::array<SharedNorm, 2> norms = shared_norms(p, own);
  for (const SharedNorm& norm : norms) c.ops.run(ops::SplitNormSquares{norm.sums, norm.raw});
  c.tp.sum(own.row_sums.rows(0, 2 * own.qkv.shape[0]));
  for (const SharedNorm& norm : norms) {
    c.ops.run(ops::SplitNormForward{.y = norm.heads,
                                    .rstd = norm.rstd,
                                    .x = norm.raw,
                                    .squares = norm.sums,
                                    .weight = norm_weight(c, norm.weight),
                                    .all_columns = columns_of_all_ranks(c, norm),
                                    .epsilon = static_cast<float>(c.config.rms_norm_eps)});
  }
}

/// In place, in the gradients of queries and keys.
void norm_all_heads_backward(const Context& c, const AttentionParameters& p, const AttentionTensors& own) {
  const std::array<SharedNorm, 2> norms = shared_norms(p, own);
  for (const SharedNorm& norm : norms) {
    c.ops.run(ops::SplitNormDots{.dots = norm.sums,
                                 .dweight = c.units.accumulated_gradient(norm.weight),
                                 .dy = norm.gradient,
                                 .x = norm.raw,
                                 .rstd = norm.rstd,
                                 .weight = norm_weight(c, norm.weight)});
  }
  c.tp.sum(own.row_sums.rows(0, 2 * own.qkv.shape[0]));
  for (const SharedNorm& norm : norms) {
    c.ops.run(ops::SplitNormBackward{.dx = norm.gradient,
                                     .dy = norm.gradient,
                                     .x = norm.raw,
                                     .rstd = norm.rstd,
                                     .dots = norm.sums,
                                     .weight = norm_weight(c, norm.weight),
                                     .all_columns = columns_of_all_ranks(c, norm)});
  }
}

/// The table that turns queries as they are normed, and that of keys: none where the layer turns nothing, has turned
/// them before, or turns only some dims of a head, which is done later.
std::array<ops::RopeTable, 2> tables_of_normed(const LayerPlan& plan, const BlockScratch& scratch) {
  if (!plan.rope || plan.rotates_in_part || plan.norms_rotated) return {};
  return {scratch.ropes[plan.query_rope], scratch.ropes[*plan.rope]};
}

/// Turns queries and keys that are normed already.
void turn_normed(const Context& c, const LayerPlan& plan, const parallel::SequenceAttention::Heads& heads,
                 const BlockScratch& scratch) {
  if (!plan.rope) return;
  c.ops.run(ops::RopeForward{heads.q, heads.q, scratch.ropes[plan.query_rope]});
  c.ops.run(ops::RopeForward{heads.k, heads.k, scratch.ropes[*plan.rope]});
}

/// Turns gradients of queries and keys back, if the layer rotates: those of all groups in one call where it can.
void turn_back(const Context& c, const AttentionParameters& p, const HeadGroup& group, const AttentionTensors& own,
               const BlockScratch& scratch, const parallel::SequenceAttention::Heads& gradients) {
  const auto turn = [&](const Tensor& rotated, int rope) {
    c.ops.run(ops::RopeBackward{rotated, rotated, scratch.ropes[rope]});
  };
  if (group.is_all()) return for_each_rotated(p.plan, own.dqkv, own.sizes, turn);
  if (!p.plan.rope) return;
  turn(gradients.q, p.plan.query_rope);
  turn(gradients.k, *p.plan.rope);
}

}  // namespace

parallel::SequenceAttention::Heads heads_of(const Tensor& qkv, const HeadSizes& s) {
  const auto heads = [&](std::int64_t begin, std::int64_t n) {
    return qkv.columns(begin, n * s.head_dim).view({qkv.shape[0], n, s.head_dim});
  };
  return {heads(0, s.q_heads), heads(s.q_columns(), s.kv_heads), heads(s.q_columns() + s.kv_columns(), s.kv_heads)};
}

Tensor heads_of_group(const HeadGroup& group, const Tensor& all) {
  const std::int64_t num_heads = all.shape[1] / group.count, head_dim = all.shape[2];
  const Tensor columns = as_matrix(all).columns(group.number * num_heads * head_dim, num_heads * head_dim);
  return columns.view({all.shape[0], num_heads, head_dim});
}

Tensor rows_of_group(const HeadGroup& group, const Tensor& all) {
  if (all.empty()) return all;
  const std::int64_t num_heads = all.shape[0] / group.count;
  return all.rows(group.number * num_heads, num_heads);
}

AttentionTensors::AttentionTensors(const SublayerTensors& own, const HeadSizes& all, const LayerPlan& plan)
    : num_groups(all.qkv_columns() / own["qkv"].shape[1]),
      sizes(all.of_group(num_groups)),
      qkv(own["qkv"]),
      out(own["out"]),
      lse(own["lse"]),
      q_rstd(own["q_rstd"]),
      k_rstd(own["k_rstd"]),
      heads(heads_of(qkv, sizes)),
      row_sums(own["row_sums"]),
      dattention(own["dattention"]),
      dqkv(own["dqkv"]) {
  if (plan.qk_norm == LayerPlan::QkNorm::none) return;
  heads.q = own["normed_q"];
  heads.k = own["normed_k"];
}

AttentionTensors AttentionTensors::of_group(const HeadGroup& group) const {
  AttentionTensors part = *this;
  const std::int64_t num_tokens = lse.shape[0], num_heads = lse.shape[1] / group.count;
  part.out = heads_of_group(group, out);
  part.lse = rows_of_group(group, lse.view({lse.num_elements()})).view({num_tokens, num_heads});
  return part;
}

void rotate_product(const Context& c, const AttentionParameters& p, const AttentionTensors& own,
                    const BlockScratch& scratch) {
  if (!p.plan.rotates_products()) return;
  for_each_rotated(p.plan, own.qkv, own.sizes, [&](const Tensor& rotated, int rope) {
    c.ops.run(ops::RopeForward{rotated, rotated, scratch.ropes[rope]});
  });
}

void norm_heads(const Context& c, const AttentionParameters& p, const AttentionTensors& own,
                const BlockScratch& scratch) {
  if (p.plan.qk_norm == LayerPlan::QkNorm::none) return;
  if (p.plan.qk_norm == LayerPlan::QkNorm::all_heads) {
    norm_all_heads(c, p, own);
    return turn_normed(c, p.plan, own.heads, scratch);
  }
  const auto epsilon = static_cast<float>(c.config.rms_norm_eps);
  const parallel::SequenceAttention::Heads raw = heads_of(own.qkv, own.sizes);
  const auto [of_queries, of_keys] = tables_of_normed(p.plan, scratch);
  c.ops.run(ops::NormRopeForward{.out = own.heads.q,
                                 .rstd = own.q_rstd,
                                 .in = raw.q,
                                 .weight = norm_weight(c, p.q_norm),
                                 .table = of_queries,
                                 .epsilon = epsilon});
  c.ops.run(ops::NormRopeForward{.out = own.heads.k,
                                 .rstd = own.k_rstd,
                                 .in = raw.k,
                                 .weight = norm_weight(c, p.k_norm),
                                 .table = of_keys,
                                 .epsilon = epsilon});
  if (p.plan.rotates_in_part && !p.plan.norms_rotated) turn_normed(c, p.plan, own.heads, scratch);
}

void rotate(const Context& c, const AttentionParameters& p, const AttentionTensors& own, const BlockScratch& scratch) {
  rotate_product(c, p, own, scratch);
  norm_heads(c, p, own, scratch);
}

void rotate_backward(const Context& c, const AttentionParameters& p, const HeadGroup& group,
                     const AttentionTensors& own, const BlockScratch& scratch,
                     const parallel::SequenceAttention::Heads& gradients) {
  if (p.plan.qk_norm == LayerPlan::QkNorm::all_heads) {
    turn_back(c, p, group, own, scratch, gradients);
    norm_all_heads_backward(c, p, own);
  } else if (p.plan.qk_norm == LayerPlan::QkNorm::heads) {
    const parallel::SequenceAttention::Heads raw = heads_of(own.qkv, own.sizes);
    const auto [of_queries, of_keys] = tables_of_normed(p.plan, scratch);
    if (p.plan.rotates_in_part && !p.plan.norms_rotated) turn_back(c, p, group, own, scratch, gradients);
    c.ops.run(ops::NormRopeBackward{.din = gradients.q,
                                    .dweight = c.units.accumulated_gradient(p.q_norm),
                                    .dout = gradients.q,
                                    .in = raw.q,
                                    .rstd = own.q_rstd,
                                    .weight = norm_weight(c, p.q_norm),
                                    .table = of_queries});
    c.ops.run(ops::NormRopeBackward{.din = gradients.k,
                                    .dweight = c.units.accumulated_gradient(p.k_norm),
                                    .dout = gradients.k,
                                    .in = raw.k,
                                    .rstd = own.k_rstd,
                                    .weight = norm_weight(c, p.k_norm),
                                    .table = of_keys});
    if (p.plan.norms_rotated) turn_back(c, p, group, own, scratch, gradients);
  } else {
    turn_back(c, p, group, own, scratch, gradients);
  }
}

}  // namespace sft::model
