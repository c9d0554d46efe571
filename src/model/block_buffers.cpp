// SPDX-License-Identifier: Apache-2.0
#include "sft/model/block_buffers.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

namespace sft::model {

namespace {

/// Leaves the first rows of each of `members` that has memory.
template <class Buffers>
void narrow(Buffers& buffers, std::int64_t num_rows, std::initializer_list<Tensor Buffers::*> members) {
  for (Tensor Buffers::*member : members) {
    Tensor& tensor = buffers.*member;
    if (!tensor.empty()) tensor = tensor.rows(0, num_rows);
  }
}

/// `x`: memory of the stream, or empty: it takes its own.
void take_stream(StreamActivations& stream, device::Arena& arena, const Sizes& s, const LayerPlan& plan,
                 const Tensor& x = {}) {
  stream.x = x.empty() ? take(arena, s.compute, {s.slice_tokens(), s.hidden}) : x;
  if (plan.norms_inputs) stream.rstd = take(arena, DType::float32, {s.slice_tokens()});
}

void take_branch(StreamActivations& stream, device::Arena& arena, const Sizes& s, const LayerPlan& plan) {
  if (!plan.norms_branches) return;
  stream.branch = take(arena, s.compute, {s.slice_tokens(), s.hidden});
  stream.branch_rstd = take(arena, DType::float32, {s.slice_tokens()});
}

void take_input(BlockActivations& a, device::Arena& arena, const Sizes& s, const LayerPlan& plan) {
  take_stream(a.before_attention, arena, s, plan);
  take_branch(a.before_mlp, arena, s, plan);
}

void take_decisions(MlpActivations& a, device::Arena& arena, const Sizes& s, const LayerPlan& plan) {
  if (plan.mlp == LayerPlan::MlpKind::experts) take_decisions(a.experts, arena, s);
}

/// `middle`: memory of before_mlp.x, or empty: it takes its own.
void take_following_streams(BlockActivations& a, device::Arena& arena, const Sizes& s, const LayerPlan& plan,
                            const Tensor& middle = {}) {
  take_stream(a.before_mlp, arena, s, plan, middle);
  take_branch(a.before_attention, arena, s, plan);
}

void take_products(AttentionActivations& a, device::Arena& arena, const Sizes& s) {
  a.qkv = take(arena, s.compute, {s.tokens, s.of_head_group().qkv_columns()});
  a.out = take(arena, s.compute, {s.tokens, s.q_heads, s.head_dim});
  a.lse = take(arena, DType::float32, {s.tokens, s.q_heads});
}

void take_followers(AttentionActivations& a, device::Arena& arena, const Sizes& all, const LayerPlan& plan) {
  if (plan.qk_norm == LayerPlan::QkNorm::none) return;
  const Sizes s = all.of_head_group();
  a.heads.q = take(arena, s.compute, {s.tokens, s.q_heads, s.head_dim});
  a.heads.k = take(arena, s.compute, {s.tokens, s.kv_heads, s.head_dim});
  const bool is_of_all = plan.qk_norm == LayerPlan::QkNorm::all_heads;
  const auto take_rstd = [&](std::int64_t num_heads) {
    return is_of_all ? take(arena, DType::float32, {s.tokens}) : take(arena, DType::float32, {s.tokens, num_heads});
  };
  a.q_rstd = take_rstd(s.q_heads);
  a.k_rstd = take_rstd(s.kv_heads);
}

void take_products(MlpActivations& a, device::Arena& arena, const Sizes& s, const LayerPlan& plan) {
  switch (plan.mlp) {
    case LayerPlan::MlpKind::dense:
      a.gate_up = take(arena, s.compute, {s.tokens, 2 * s.mlp});
      break;
    case LayerPlan::MlpKind::experts:
      take_expert_products(a.experts, arena, s);
      if (s.shared_mlp > 0) a.gate_up = take(arena, s.compute, {s.tokens, 2 * s.shared_mlp});
      break;
  }
}

/// What attention reads of the fused product, once both are there.
void point_heads(AttentionActivations& a, const Sizes& s, const LayerPlan& plan) {
  const parallel::SequenceAttention::Heads fused = heads_of(a.qkv, s.of_head_group());
  a.heads.v = fused.v;
  if (plan.qk_norm != LayerPlan::QkNorm::none) return;
  a.heads.q = fused.q;
  a.heads.k = fused.k;
}

/// Memory for BlockScratch::row_sums, where a layer needs it.
Tensor take_row_sums(device::Arena& arena, const Sizes& s, const std::vector<LayerPlan>& plans) {
  const bool is_needed =
      std::ranges::any_of(plans, [](const LayerPlan& plan) { return plan.qk_norm == LayerPlan::QkNorm::all_heads; });
  return is_needed ? take(arena, DType::float32, {2 * s.tokens}) : Tensor();
}

void add_present(std::vector<Tensor>& list, std::initializer_list<Tensor> tensors) {
  std::ranges::copy_if(tensors, std::back_inserter(list), [](const Tensor& tensor) { return !tensor.empty(); });
}

}  // namespace

/// Queries, keys and values of a fused (T, (H + 2K) D) tensor.
parallel::SequenceAttention::Heads heads_of(const Tensor& qkv, const Sizes& s) {
  const auto heads = [&](std::int64_t begin, std::int64_t n) {
    return qkv.columns(begin, n * s.head_dim).view({qkv.shape[0], n, s.head_dim});
  };
  return {heads(0, s.q_heads), heads(s.q_columns(), s.kv_heads), heads(s.q_columns() + s.kv_columns(), s.kv_heads)};
}

ActivationPolicy activation_policy(const config::Train& train, device::Kind kind) {
  using Location = ActivationPolicy::Location;
  const bool goes_to_files = train.activation_offload_to == config::ActivationPlace::nvme;
  const Location of_gpu = goes_to_files ? Location::file_behind_host : Location::host;
  const Location elsewhere = kind == device::Kind::cpu ? Location::file : of_gpu;
  return {.checkpointing = train.activation_checkpointing,
          .mlp_tile_tokens = train.mlp_tile_tokens.value_or(0) > 0 ? *train.mlp_tile_tokens : INT64_MAX,
          .location = train.activation_offload ? elsewhere : Location::device};
}

BlockActivations take_streams(device::Arena& arena, const Sizes& s, const LayerPlan& plan) {
  BlockActivations a;
  take_input(a, arena, s, plan);
  take_following_streams(a, arena, s, plan);
  return a;
}

BlockActivations take_around(device::Arena& arena, const Sizes& s, const LayerPlan& plan,
                             const BlockActivations& streams) {
  BlockActivations a = streams;
  take_decisions(a.mlp, arena, s, plan);
  take_products(a.attention, arena, s);
  take_products(a.mlp, arena, s, plan);
  take_followers(a.attention, arena, s, plan);
  point_heads(a.attention, s, plan);
  return a;
}

BlockActivations take_shared_activations(device::Arena& arena, const Sizes& s, const LayerPlan& plan,
                                         const ActivationPolicy& policy, const Tensor& middle) {
  BlockActivations a;
  if (!policy.keeps_products()) take_products(a.attention, arena, s);
  if (!policy.keeps_all()) {
    take_followers(a.attention, arena, s, plan);
    take_following_streams(a, arena, s, plan, middle);
  }
  return a;
}

BlockActivations take_kept_activations(device::Arena& arena, const Sizes& s, const LayerPlan& plan,
                                       const ActivationPolicy& policy, const BlockActivations& shared) {
  BlockActivations a = shared;
  take_input(a, arena, s, plan);
  take_decisions(a.mlp, arena, s, plan);
  if (policy.keeps_products()) {
    take_products(a.attention, arena, s);
    take_products(a.mlp, arena, s, plan);
  }
  if (policy.keeps_all()) {
    take_followers(a.attention, arena, s, plan);
    take_following_streams(a, arena, s, plan);
  }
  point_heads(a.attention, s, plan);
  return a;
}

std::vector<Tensor> kept_tensors(const BlockActivations& a, const ActivationPolicy& policy) {
  const StreamActivations &first = a.before_attention, &second = a.before_mlp;
  const bool has_qk_norm = !a.attention.q_rstd.empty();
  std::vector<Tensor> kept;
  add_present(kept, {first.x, first.rstd, second.branch, second.branch_rstd});
  for (const Tensor& decision : decisions_of(a.mlp.experts)) add_present(kept, {decision});
  if (policy.keeps_products()) {
    add_present(kept, {a.attention.qkv, a.attention.out, a.attention.lse, a.mlp.gate_up, a.mlp.experts.gate_up});
  }
  if (policy.keeps_all()) {
    if (has_qk_norm) {
      add_present(kept, {a.attention.heads.q, a.attention.heads.k, a.attention.q_rstd, a.attention.k_rstd});
    }
    add_present(kept, {second.x, second.rstd, first.branch, first.branch_rstd});
  }
  return kept;
}

BlockActivations first_rows(BlockActivations all, std::int64_t num_tokens, int token_slices) {
  using S = StreamActivations;
  using A = AttentionActivations;
  using H = parallel::SequenceAttention::Heads;
  for (StreamActivations* stream : {&all.before_attention, &all.before_mlp}) {
    narrow(*stream, num_tokens / token_slices, {&S::x, &S::rstd, &S::branch, &S::branch_rstd});
  }
  narrow(all.attention, num_tokens, {&A::qkv, &A::q_rstd, &A::k_rstd, &A::out, &A::lse});
  narrow(all.attention.heads, num_tokens, {&H::q, &H::k, &H::v});
  narrow(all.mlp, num_tokens, {&MlpActivations::gate_up});
  all.mlp.experts = first_tokens(std::move(all.mlp.experts), num_tokens);
  return all;
}

BlockScratch take_forward_scratch(device::Arena& arena, const config::Model& model, const Sizes& s) {
  BlockScratch b;
  b.normed = take(arena, s.compute, {s.tokens, s.hidden});
  b.act = take(arena, s.compute, {s.tokens, s.widest_mlp()});
  if (s.experts > 0) b.experts = take_forward_expert_scratch(arena, s);
  b.delta = take(arena, s.partial, {s.tokens, s.hidden});
  b.row_sums = take_row_sums(arena, s, layer_plans(model));
  b.ropes = RopeTables(model, arena, s.tokens);
  return b;
}

BlockScratch take_scratch(device::Arena& arena, device::Arena& tp_sums, const Sizes& s, const config::Model& model,
                          const ActivationPolicy& policy) {
  BlockScratch b;
  const std::int64_t tile_tokens = std::min(policy.mlp_tile_tokens, s.tokens);
  const std::int64_t q_columns = s.of_head_group().q_columns();
  const bool shares_normed = s.head_groups == 1;
  const Tensor normed = take(arena, s.compute, {s.tokens * std::max(s.hidden, shares_normed ? q_columns : 0)});
  b.normed = normed.rows(0, s.tokens * s.hidden).view({s.tokens, s.hidden});
  const Tensor dattention = shares_normed ? normed : take(arena, s.compute, {s.tokens * q_columns});
  b.dattention = dattention.rows(0, s.tokens * q_columns).view({s.tokens, q_columns / s.head_dim, s.head_dim});

  const std::int64_t width = s.widest_mlp();
  const auto take_mlp = [&] {
    b.act = take(arena, s.compute, {tile_tokens, width});
    if (!policy.keeps_products()) b.gate_up = take(arena, s.compute, {tile_tokens, 2 * width});
  };
  const auto take_experts = [&] { b.experts = take_expert_scratch(arena, s, policy.keeps_products()); };
  const auto take_beside_mlp = [&] {
    if (!policy.keeps_all()) b.middle = take(arena, s.compute, {s.slice_tokens(), s.hidden});
    take_in_turn(arena, s.experts > 0 ? 2 : 1, [&](int turn) { turn == 0 ? take_mlp() : take_experts(); });
  };
  const auto take_gradients = [&] { b.qkv = take(arena, s.compute, {s.tokens, s.qkv_columns()}); };
  take_in_turn(arena, 2, [&](int turn) { turn == 0 ? take_beside_mlp() : take_gradients(); });

  b.is_in_one = s.shares_branches();
  b.delta = b.is_in_one ? b.normed : take(tp_sums, s.partial, {s.tokens, s.hidden});
  b.row_sums = take_row_sums(tp_sums, s, layer_plans(model));
  b.dnormed = b.delta;
  b.dx = take(arena, s.compute, {s.tokens, s.hidden});
  const std::vector<LayerPlan> plans = layer_plans(model);
  b.dbranch =
      std::ranges::any_of(plans, &LayerPlan::changes_branches) ? take(arena, s.compute, {s.tokens, s.hidden}) : b.dx;
  b.ropes = RopeTables(model, arena, s.tokens);
  return b;
}

BlockScratch first_rows(BlockScratch all, std::int64_t num_tokens) {
  using S = BlockScratch;
  narrow(all, num_tokens, {&S::normed, &S::qkv, &S::delta, &S::dx, &S::dnormed, &S::dattention, &S::dbranch});
  all.ropes = all.ropes.first_rows(num_tokens);
  narrow(all, std::min(num_tokens, all.act.shape[0]), {&S::act, &S::gate_up});
  return all;
}

}  // namespace sft::model
