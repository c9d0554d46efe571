// SPDX-License-Identifier: Apache-2.0
#include "sft/model/block_buffers.hpp"

#include <algorithm>
#include <initializer_list>

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

/// Columns of a tensor that others follow in the same memory, so that they are aligned.
std::int64_t aligned(std::int64_t num_elements) { return (num_elements + 127) / 128 * 128; }

void take_input(BlockActivations& a, device::Arena& arena, const Sizes& s, const LayerPlan& plan) {
  a.x = take(arena, s.compute, {s.slice_tokens(), s.hidden});
  a.input_rstd = take(arena, DType::float32, {s.slice_tokens()});
  if (!plan.norms_branches) return;
  a.mlp_branch = take(arena, s.compute, {s.slice_tokens(), s.hidden});
  a.mlp_branch_rstd = take(arena, DType::float32, {s.slice_tokens()});
}

void take_products(BlockActivations& a, device::Arena& arena, const Sizes& s) {
  a.qkv = take(arena, s.compute, {s.tokens, s.qkv_columns()});
  a.attention = take(arena, s.compute, {s.tokens, s.q_heads, s.head_dim});
  a.lse = take(arena, DType::float32, {s.tokens, s.q_heads});
}

void take_gate_up(BlockActivations& a, device::Arena& arena, const Sizes& s) {
  a.gate_up = take(arena, s.compute, {s.tokens, 2 * s.mlp});
}

void take_followers(BlockActivations& a, device::Arena& arena, const Sizes& s, const LayerPlan& plan) {
  if (plan.qk_norm != LayerPlan::QkNorm::none) {
    a.heads.q = take(arena, s.compute, {s.tokens, s.q_heads, s.head_dim});
    a.heads.k = take(arena, s.compute, {s.tokens, s.kv_heads, s.head_dim});
    a.q_rstd = take(arena, DType::float32, {s.tokens, s.q_heads});
    a.k_rstd = take(arena, DType::float32, {s.tokens, s.kv_heads});
  }
  a.middle = take(arena, s.compute, {s.slice_tokens(), s.hidden});
  a.middle_rstd = take(arena, DType::float32, {s.slice_tokens()});
  if (!plan.norms_branches) return;
  a.attention_branch = take(arena, s.compute, {s.slice_tokens(), s.hidden});
  a.attention_branch_rstd = take(arena, DType::float32, {s.slice_tokens()});
}

/// What attention reads of the fused product, once both are there.
void point_heads(BlockActivations& a, const Sizes& s, const LayerPlan& plan) {
  const parallel::SequenceAttention::Heads fused = heads_of(a.qkv, s);
  a.heads.v = fused.v;
  if (plan.qk_norm != LayerPlan::QkNorm::none) return;
  a.heads.q = fused.q;
  a.heads.k = fused.k;
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
  const Location elsewhere = kind == device::Kind::cpu ? Location::file : Location::host;
  return {.checkpointing = train.activation_checkpointing,
          .mlp_tile_tokens = train.mlp_tile_tokens > 0 ? train.mlp_tile_tokens : INT64_MAX,
          .location = train.activation_offload ? elsewhere : Location::device};
}

BlockActivations take_activations(device::Arena& arena, const Sizes& s, const LayerPlan& plan) {
  return take_kept_activations(arena, s, plan, {}, {});
}

BlockActivations take_shared_activations(device::Arena& arena, const Sizes& s, const LayerPlan& plan,
                                         const ActivationPolicy& policy) {
  BlockActivations a;
  if (!policy.keeps_products()) take_products(a, arena, s);
  if (!policy.keeps_all()) take_followers(a, arena, s, plan);
  return a;
}

BlockActivations take_kept_activations(device::Arena& arena, const Sizes& s, const LayerPlan& plan,
                                       const ActivationPolicy& policy, const BlockActivations& shared) {
  BlockActivations a = shared;
  take_input(a, arena, s, plan);
  if (policy.keeps_products()) {
    take_products(a, arena, s);
    take_gate_up(a, arena, s);
  }
  if (policy.keeps_all()) take_followers(a, arena, s, plan);
  point_heads(a, s, plan);
  return a;
}

std::vector<Tensor> kept_tensors(const BlockActivations& a, const ActivationPolicy& policy) {
  std::vector<Tensor> kept = {a.x, a.input_rstd};
  if (!a.mlp_branch.empty()) kept.insert(kept.end(), {a.mlp_branch, a.mlp_branch_rstd});
  if (policy.keeps_products()) kept.insert(kept.end(), {a.qkv, a.attention, a.lse, a.gate_up});
  if (policy.keeps_all()) {
    if (!a.q_rstd.empty()) kept.insert(kept.end(), {a.heads.q, a.heads.k, a.q_rstd, a.k_rstd});
    kept.insert(kept.end(), {a.middle, a.middle_rstd});
    if (!a.attention_branch.empty()) kept.insert(kept.end(), {a.attention_branch, a.attention_branch_rstd});
  }
  return kept;
}

BlockActivations first_rows(BlockActivations all, std::int64_t num_tokens, int token_slices) {
  using A = BlockActivations;
  using H = parallel::SequenceAttention::Heads;
  narrow(all, num_tokens / token_slices,
         {&A::x, &A::input_rstd, &A::middle, &A::middle_rstd, &A::mlp_branch, &A::mlp_branch_rstd, &A::attention_branch,
          &A::attention_branch_rstd});
  narrow(all, num_tokens, {&A::qkv, &A::q_rstd, &A::k_rstd, &A::attention, &A::lse, &A::gate_up});
  narrow(all.heads, num_tokens, {&H::q, &H::k, &H::v});
  return all;
}

BlockScratch take_forward_scratch(device::Arena& arena, const config::Model& model, const Sizes& s) {
  BlockScratch b;
  b.normed = take(arena, s.compute, {s.tokens, s.hidden});
  b.act = take(arena, s.compute, {s.tokens, s.mlp});
  b.delta = take(arena, s.partial, {s.tokens, s.hidden});
  b.ropes = RopeTables(model, arena, s.tokens);
  return b;
}

BlockScratch take_scratch(device::Arena& arena, device::Arena& tp_sums, const Sizes& s, const config::Model& model,
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
  b.dbranch = layer_plans(model).front().changes_branches() ? take(arena, s.compute, {s.tokens, s.hidden}) : b.dx;
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
