// SPDX-License-Identifier: Apache-2.0
#include "sft/model/layers/attention.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "model/linear/fp8_products.hpp"
#include "sft/model/linear/linear.hpp"

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

/// Some of the layer's heads, as many key/value heads as any other group has, with their query heads. Whoever works on
/// them has a context whose sizes are theirs.
struct HeadGroup {
  std::int64_t number, count;  ///< of groups

  [[nodiscard]] bool is_all() const { return count == 1; }
};

/// Calls work(context, group) for the groups, one after the other.
template <class Work>
void for_each_group(const Context& c, const Work& work) {
  Context of_group = c;
  of_group.sizes = c.sizes.of_head_group();
  for (std::int64_t number = 0; number < c.sizes.head_groups; ++number) {
    work(static_cast<const Context&>(of_group), HeadGroup{number, c.sizes.head_groups});
  }
}

/// Those of `all` heads (T, n, D) that are the group's.
Tensor heads_of_group(const HeadGroup& group, const Tensor& all) {
  const std::int64_t num_heads = all.shape[1] / group.count, head_dim = all.shape[2];
  const Tensor columns = as_matrix(all).columns(group.number * num_heads * head_dim, num_heads * head_dim);
  return columns.view({all.shape[0], num_heads, head_dim});
}

/// The same of (n), one for each head.
Tensor rows_of_group(const HeadGroup& group, const Tensor& all) {
  if (all.empty()) return all;
  const std::int64_t num_heads = all.shape[0] / group.count;
  return all.rows(group.number * num_heads, num_heads);
}

/// What attention of the group works in.
AttentionActivations part_of_group(const HeadGroup& group, const AttentionActivations& all) {
  AttentionActivations part = all;
  const std::int64_t num_tokens = all.lse.shape[0], num_heads = all.lse.shape[1] / group.count;
  part.out = heads_of_group(group, all.out);
  part.lse = rows_of_group(group, all.lse.view({all.lse.num_elements()})).view({num_tokens, num_heads});
  return part;
}

/// saved.qkv = queries, keys and values of the group.
void project(const Context& c, const LinearRows& layer, const HeadGroup& group, const AttentionActivations& saved) {
  std::int64_t first_row = 0, first_column = 0;
  for (const std::int64_t num_columns : {c.sizes.q_columns(), c.sizes.kv_columns(), c.sizes.kv_columns()}) {
    layer.forward(c, {first_row + group.number * num_columns, num_columns},
                  saved.qkv.columns(first_column, num_columns));
    first_row += group.count * num_columns;
    first_column += num_columns;
  }
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
  for (const SharedNorm& norm : norms) c.ops.run(ops::SplitNormSquares{norm.sums, norm.raw});
  c.tp.sum(scratch.row_sums.rows(0, 2 * saved.qkv.shape[0]));
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
void norm_all_heads_backward(const Context& c, const BlockParameters& p, const AttentionActivations& saved,
                             BlockScratch& scratch) {
  const std::array<SharedNorm, 2> norms = shared_norms(c, p, saved, scratch);
  for (const SharedNorm& norm : norms) {
    c.ops.run(ops::SplitNormDots{.dots = norm.sums,
                                 .dweight = c.units.accumulated_gradient(norm.weight),
                                 .dy = norm.gradient,
                                 .x = norm.raw,
                                 .rstd = norm.rstd,
                                 .weight = norm_weight(c, norm.weight)});
  }
  c.tp.sum(scratch.row_sums.rows(0, 2 * saved.qkv.shape[0]));
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

/// What heads are turned by as they are normed: by nothing where some of their dims alone are turned, later.
ops::RopeTable table_of_normed(const LayerPlan& plan, const ops::RopeTable& table) {
  return plan.rotates_in_part ? ops::RopeTable{} : table;
}

/// Rotates queries and keys, if the layer does; with q/k norms into memory of their own.
void rotate(const Context& c, const BlockParameters& p, AttentionActivations& saved, BlockScratch& scratch) {
  if (p.plan.qk_norm == LayerPlan::QkNorm::all_heads) {
    norm_all_heads(c, p, saved, scratch);
    for (const Tensor& heads : {saved.heads.q, saved.heads.k}) {
      c.ops.run(ops::RopeForward{heads, heads, scratch.ropes[*p.plan.rope]});
    }
  } else if (has_qk_norm(p)) {
    const auto epsilon = static_cast<float>(c.config.rms_norm_eps);
    const parallel::SequenceAttention::Heads raw = heads_of(saved.qkv, c.sizes);
    c.ops.run(ops::NormRopeForward{.out = saved.heads.q,
                                   .rstd = saved.q_rstd,
                                   .in = raw.q,
                                   .weight = norm_weight(c, p.q_norm),
                                   .table = table_of_normed(p.plan, scratch.ropes[p.plan.query_rope]),
                                   .epsilon = epsilon});
    c.ops.run(ops::NormRopeForward{.out = saved.heads.k,
                                   .rstd = saved.k_rstd,
                                   .in = raw.k,
                                   .weight = norm_weight(c, p.k_norm),
                                   .table = table_of_normed(p.plan, scratch.ropes[*p.plan.rope]),
                                   .epsilon = epsilon});
    if (p.plan.rotates_in_part) {
      c.ops.run(ops::RopeForward{saved.heads.q, saved.heads.q, scratch.ropes[p.plan.query_rope]});
      c.ops.run(ops::RopeForward{saved.heads.k, saved.heads.k, scratch.ropes[*p.plan.rope]});
    }
  } else {
    for_each_rotated(p.plan, saved.qkv, c.sizes, [&](const Tensor& rotated, int rope) {
      c.ops.run(ops::RopeForward{rotated, rotated, scratch.ropes[rope]});
    });
  }
}

/// Turns gradients of queries and keys back, if the layer rotates: those of all groups in one call where it can.
void turn_back(const Context& c, const BlockParameters& p, const HeadGroup& group, const BlockScratch& scratch,
               const parallel::SequenceAttention::Heads& gradients) {
  const auto turn = [&](const Tensor& rotated, int rope) {
    c.ops.run(ops::RopeBackward{rotated, rotated, scratch.ropes[rope]});
  };
  if (group.is_all()) return for_each_rotated(p.plan, scratch.qkv, c.sizes, turn);
  if (!p.plan.rope) return;
  turn(gradients.q, p.plan.query_rope);
  turn(gradients.k, *p.plan.rope);
}

void rotate_backward(const Context& c, const BlockParameters& p, const HeadGroup& group,
                     const AttentionActivations& saved, BlockScratch& scratch,
                     const parallel::SequenceAttention::Heads& gradients) {
  if (p.plan.qk_norm == LayerPlan::QkNorm::all_heads) {
    turn_back(c, p, group, scratch, gradients);
    norm_all_heads_backward(c, p, saved, scratch);
  } else if (has_qk_norm(p)) {
    const parallel::SequenceAttention::Heads raw = heads_of(saved.qkv, c.sizes);
    if (p.plan.rotates_in_part) turn_back(c, p, group, scratch, gradients);
    c.ops.run(ops::NormRopeBackward{.din = gradients.q,
                                    .dweight = c.units.accumulated_gradient(p.q_norm),
                                    .dout = gradients.q,
                                    .in = raw.q,
                                    .rstd = saved.q_rstd,
                                    .weight = norm_weight(c, p.q_norm),
                                    .table = table_of_normed(p.plan, scratch.ropes[p.plan.query_rope])});
    c.ops.run(ops::NormRopeBackward{.din = gradients.k,
                                    .dweight = c.units.accumulated_gradient(p.k_norm),
                                    .dout = gradients.k,
                                    .in = raw.k,
                                    .rstd = saved.k_rstd,
                                    .weight = norm_weight(c, p.k_norm),
                                    .table = table_of_normed(p.plan, scratch.ropes[*p.plan.rope])});
  } else {
    turn_back(c, p, group, scratch, gradients);
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
    c.ops.run(ops::Copy{sums, terms.rows(begin, count)});
    c.tp.sum_over_kv_replicas(sums);
    if (c.tp.kv_replica() == 0) c.ops.run(ops::Copy{terms.rows(begin, count), sums});
  }
  if (c.tp.kv_replica() != 0) c.ops.run(ops::Fill{terms, 0.0F});
}

/// What attention of the group reads: rotated heads and, where the layer has them, its sinks.
parallel::SequenceAttention::Heads inputs_of(const Context& c, const BlockParameters& p, const HeadGroup& group,
                                             const AttentionActivations& saved) {
  parallel::SequenceAttention::Heads heads = saved.heads;
  if (p.plan.has_sinks) heads.sinks = rows_of_group(group, c.units.parameter(p.sinks));
  return heads;
}

void attend(const Context& c, const BlockParameters& p, const HeadGroup& group, const AttentionActivations& saved) {
  const parallel::SequenceAttention::Heads heads = inputs_of(c, p, group, saved);
  timed(c, "attention forward", [&] { c.attention.forward(p.plan.attention, heads, saved.out, saved.lse); });
}

/// saved.out and saved.lse, of scratch.normed.
void attend_to_all(const Context& c, const BlockParameters& p, AttentionActivations& saved, BlockScratch& scratch) {
  if (c.sizes.head_groups == 1) {
    linear_forward(c, p.qkv, saved.qkv, scratch.normed);
    rotate(c, p, saved, scratch);
    return attend(c, p, {0, 1}, saved);
  }
  const LinearRows qkv(c, p.qkv, scratch.normed);
  for_each_group(c, [&](const Context& of_group, const HeadGroup& group) {
    AttentionActivations part = part_of_group(group, saved);
    project(of_group, qkv, group, part);
    rotate(of_group, p, part, scratch);
    attend(of_group, p, group, part);
  });
}

/// The gradients of the group's queries, keys and values in scratch.qkv, of scratch.dattention.
void differentiate_group(const Context& c, const BlockParameters& p, const HeadGroup& group,
                         const AttentionActivations& saved, BlockScratch& scratch,
                         parallel::SequenceAttention::Heads gradients, const std::function<void()>& behind) {
  const parallel::SequenceAttention::Heads heads = inputs_of(c, p, group, saved);
  if (p.plan.has_sinks) gradients.sinks = rows_of_group(group, c.units.accumulated_gradient(p.sinks));
  timed(c, "attention backward",
        [&] { c.attention.backward(p.plan.attention, heads, saved.out, saved.lse, scratch.dattention, gradients); });
  behind();
  rotate_backward(c, p, group, saved, scratch, gradients);
}

/// The same for several groups, one after the other, whose queries, keys and values are computed again, of
/// scratch.normed.
void differentiate_groups(const Context& c, const BlockParameters& p, const AttentionActivations& saved,
                          BlockScratch& scratch, GradientCodes& codes_of_o) {
  const parallel::SequenceAttention::Heads all = heads_of(scratch.qkv, c.sizes);
  const LinearRows qkv(c, p.qkv, scratch.normed);
  const LinearColumns o(c, p.o, scratch.dbranch, &codes_of_o);
  for_each_group(c, [&](const Context& of_group, const HeadGroup& group) {
    AttentionActivations part = part_of_group(group, saved);
    project(of_group, qkv, group, part);
    rotate(of_group, p, part, scratch);
    o.backward_input(c, group.number * of_group.sizes.q_columns(), as_matrix(scratch.dattention));
    differentiate_group(of_group, p, group, part, scratch,
                        {heads_of_group(group, all.q), heads_of_group(group, all.k), heads_of_group(group, all.v)},
                        [] {});
  });
}

}  // namespace

void attention_forward(const Context& c, const BlockParameters& p, AttentionActivations& saved, BlockScratch& scratch) {
  prepare_magnitudes(c, p.qkv);
  prepare_magnitudes(c, p.o);
  attend_to_all(c, p, saved, scratch);
  linear_forward_partial(c, p.o, scratch.delta, as_matrix(saved.out));
}

void attention_recompute(const Context& c, const BlockParameters& p, const ActivationPolicy& policy,
                         AttentionActivations& saved, BlockScratch& scratch) {
  const bool is_rotated_in_place = !has_qk_norm(p);
  if (!policy.keeps_products()) {
    attend_to_all(c, p, saved, scratch);
  } else if (!is_rotated_in_place) {
    rotate(c, p, saved, scratch);
  }
  linear_forward_partial(c, p.o, scratch.delta, as_matrix(saved.out));
}

void attention_backward(const Context& c, const BlockParameters& p, AttentionActivations& saved, BlockScratch& scratch,
                        const std::function<void()>& start_normed) {
  GradientCodes of_qkv = gradient_codes(c, LayerOfTwo::first), of_o = gradient_codes(c, LayerOfTwo::second);
  if (c.sizes.head_groups > 1) {
    start_normed();
    c.tp.finish();
    differentiate_groups(c, p, saved, scratch, of_o);
  } else {
    linear_backward_input(c, p.o, as_matrix(scratch.dattention), scratch.dbranch, 0, &of_o);
    // normed comes in the memory of dattention, beside the gradients of queries, keys and values
    differentiate_group(c, p, {0, 1}, saved, scratch, heads_of(scratch.qkv, c.sizes), start_normed);
  }
  sum_before_rounding(c, scratch);

  const auto differentiate_input = [&] { linear_backward_input(c, p.qkv, scratch.dnormed, scratch.qkv, 0, &of_qkv); };
  const auto add_weight_gradients = [&] {
    linear_backward_weight(c, p.o, scratch.dbranch, as_matrix(saved.out), 0, &of_o);
    linear_backward_weight(c, p.qkv, scratch.qkv, scratch.normed, 0, &of_qkv);
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
