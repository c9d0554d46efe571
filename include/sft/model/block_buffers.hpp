// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of decoder blocks: what each keeps between its passes, and what all share. Pure: planning lays it out
// without a device.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/model/context.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/model/layers/expert_buffers.hpp"
#include "sft/model/rope_tables.hpp"

namespace sft::model {

class RouterBalance;

/// Queries, keys and values of a fused product (T, (H + 2K) D).
[[nodiscard]] parallel::SequenceAttention::Heads heads_of(const Tensor& qkv, const Sizes& sizes);

// What the forward pass of one block leaves for its backward pass. Shapes as in Sizes: T tokens, or the S of this rank
// where tokens are cut over tp; compute dtype unless stated. Every tensor is of one of the parts "input", "products"
// and "followers", which ActivationPolicy keeps for each block or computes again.

/// The residual stream where attention or the MLP reads it, and what that adds to it.
struct StreamActivations {
  Tensor x;     ///< (S, C) the residual stream
  Tensor rstd;  ///< (S) float32, of its norm, with LayerPlan::norms_inputs
  /// What is added, before its norm, with LayerPlan::norms_branches: (S, C), (S) float32.
  Tensor branch, branch_rstd;
};

struct AttentionActivations {
  // Products. With several groups of heads (Sizes::head_groups) H and K are those of a group but for out and lse: what
  // one group has is in the memory of the group before.
  /// (T, (H + 2K) D) queries, keys and values; without LayerPlan::QkNorm the first two are rotated in place.
  Tensor qkv;
  Tensor out;  ///< (T, H, D)
  Tensor lse;  ///< (T, H) float32, or (T, H) of one group behind the other
  // Followers
  Tensor q_rstd, k_rstd;  ///< (T, H), (T, K) float32, or (T) of all heads; only with LayerPlan::QkNorm
  /// What attention reads: columns of qkv; with LayerPlan::QkNorm normed and rotated queries and keys of their own.
  parallel::SequenceAttention::Heads heads;
};

/// Of the MLP that LayerPlan::MlpKind names; all else is empty.
struct MlpActivations {
  // Products, which are kept or empty: an MLP computes them again within its backward pass
  Tensor gate_up;  ///< (T, 2F) of a dense one, or of that beside experts; its gradient after the backward pass
  ExpertActivations experts;  ///< its decisions are input
};

struct BlockActivations {
  StreamActivations before_attention;  ///< input, but the branch: it is a follower
  StreamActivations before_mlp;        ///< followers, but the branch: it is input, as `down` is not computed again
  AttentionActivations attention;
  MlpActivations mlp;
};

/// What of them a block keeps. All else lies in memory that the blocks share, and block_backward computes it again.
///
///   checkpointing  input  products      followers    computed again
///     none         kept   kept          kept         nothing but norms and activations that cost next to nothing
///     selective    kept   kept          shared       also q/k norm with rotation, and the product o
///     full         kept   shared, and   shared       also attention and the products qkv, gate and up; not down, which
///                         no gate_up                 nothing in the backward pass reads
///
/// full is that of Chen et al. 2016; selective is in the spirit of Korthikanti et al. 2022, with attention kept, whose
/// memory grows with T alone (Dao et al. 2022). What is computed again has the same bits: same ops, same shapes.
struct ActivationPolicy {
  /// Where kept activations are between forward and backward pass.
  enum class Location {
    device,
    host,              ///< pinned memory of the node
    file,              ///< from a CPU
    file_behind_host,  ///< a file, by way of pinned memory for some blocks
  };

  config::ActivationCheckpointing checkpointing = config::ActivationCheckpointing::none;
  /// Tokens that the MLP works on at a time (Arctic long sequence training, Bekman et al. 2025), forward and backward;
  /// at least 1. Above T: all of them.
  std::int64_t mlp_tile_tokens = INT64_MAX;
  Location location = Location::device;

  [[nodiscard]] bool keeps_products() const { return checkpointing != config::ActivationCheckpointing::full; }
  [[nodiscard]] bool keeps_all() const { return checkpointing == config::ActivationCheckpointing::none; }
};
/// What [train] of a ValidConfig asks for on a device of `kind`.
[[nodiscard]] ActivationPolicy activation_policy(const config::Train& train, device::Kind kind);

/// Lays out alternatives one over the other: lay_out(i) for i below `count` each take what they want of `arena`, which
/// then has the most that one of them took.
template <class LayOut>
void take_in_turn(device::Arena& arena, int count, const LayOut& lay_out) {
  const std::size_t begin = arena.used_bytes();
  std::size_t most = 0;
  for (int i = 0; i < count; ++i) {
    arena.rewind(begin);
    lay_out(i);
    most = std::max(most, arena.used_bytes() - begin);
  }
  arena.rewind(begin);
  static_cast<void>(arena.take(most));
}

/// The residual stream of blocks that keep everything, whatever else layers of `plan` have.
[[nodiscard]] BlockActivations take_streams(device::Arena& arena, const Sizes& sizes, const LayerPlan& plan);
/// All activations of a block that keeps everything: `streams` and memory for the rest, for Sizes::tokens, contents
/// undefined.
[[nodiscard]] BlockActivations take_around(device::Arena& arena, const Sizes& sizes, const LayerPlan& plan,
                                           const BlockActivations& streams);
/// The activations that blocks share under the policy, the others empty: memory for Sizes::tokens, contents undefined.
/// `middle`: BlockScratch::middle.
[[nodiscard]] BlockActivations take_shared_activations(device::Arena& arena, const Sizes& sizes, const LayerPlan& plan,
                                                       const ActivationPolicy& policy, const Tensor& middle);
/// All activations of a block under the policy: `shared` and memory of its own, for Sizes::tokens, contents undefined.
[[nodiscard]] BlockActivations take_kept_activations(device::Arena& arena, const Sizes& sizes, const LayerPlan& plan,
                                                     const ActivationPolicy& policy, const BlockActivations& shared);
/// The activations that a block has for itself under the policy, in a fixed order.
[[nodiscard]] std::vector<Tensor> kept_tensors(const BlockActivations& activations, const ActivationPolicy& policy);
/// Views of the first T = `num_tokens`, or S, rows of all that is there: what a pass over so many tokens works in.
[[nodiscard]] BlockActivations first_rows(BlockActivations all, std::int64_t num_tokens, int token_slices = 1);

/// Buffers that all blocks share; nothing in them outlives one block but `delta`, `middle`, `dx` and `ropes`. Compute
/// dtype unless stated; "partial dtype" is Sizes::partial. N: tokens of a tile of the MLP. Some share memory, as they
/// are never needed at the same time: normed with dattention, unless there are several groups of heads; delta with
/// dnormed; qkv, of attention's backward pass, with what the MLP's needs, middle and behind it act and gate_up, or
/// experts. In the forward pass dx has the residual stream behind the last block, until its own gradient takes its
/// place. Of normed, delta, dnormed and dx this rank has TensorParallel::slice between two products, in its place.
struct BlockScratch {
  Tensor normed;      ///< (T, C)
  Tensor dattention;  ///< (T, H, D), H of a group of heads
  Tensor qkv;         ///< (T, (H + 2K) D) the gradient of queries, keys and values
  Tensor act;         ///< (N, F) what SwiGLU gives, or before that its gradient; F of the widest MLP
  Tensor gate_up;     ///< (N, 2F) where no block keeps it, else empty
  Tensor middle;      ///< (S, C) before_mlp.x of the blocks where they share it, else empty
  Tensor delta;       ///< (T, C) what the last sublayer adds to the residual stream; partial dtype
  Tensor dnormed;     ///< (T, C) partial dtype
  Tensor dx;          ///< (T, C) gradient of the residual stream
  Tensor dbranch;     ///< (T, C) gradient of what a sublayer adds: dx, or memory of its own
  Tensor row_sums;    ///< (2 T) float32, with LayerPlan::QkNorm::all_heads: sums over tp, of queries, then of keys
  RopeTables ropes;   ///< of the micro-batch's positions
  ExpertScratch experts;
  RouterBalance* balance = nullptr;  ///< where choices of experts are counted; null: nowhere
  std::int64_t num_padding = 0;      ///< tokens at the end of the micro-batch that stand in no document
  /// normed, delta and dnormed are one memory. So gradients of weights, which read normed, come before dnormed, tile by
  /// tile; with several ranks of tp dnormed comes first, as its sum runs beside them.
  bool is_in_one = false;
};
/// `tp_sums`: for delta, dnormed and row_sums.
[[nodiscard]] BlockScratch take_scratch(device::Arena& arena, device::Arena& tp_sums, const Sizes& sizes,
                                        const config::Model& model, const ActivationPolicy& policy);
/// What block_forward needs of it where a block keeps everything; the rest is empty.
[[nodiscard]] BlockScratch take_forward_scratch(device::Arena& arena, const config::Model& model, const Sizes& sizes);
[[nodiscard]] BlockScratch first_rows(BlockScratch all, std::int64_t num_tokens);

}  // namespace sft::model
