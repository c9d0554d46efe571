// SPDX-License-Identifier: Apache-2.0
#pragma once
// Queries and keys between their product and attention: what passes of attention work in, groups of heads, norms and
// rotation.

#include <cstdint>

#include "sft/model/layers/attention.hpp"

namespace sft::model {

/// Queries, keys and values of a fused product (T, (H + 2K) D).
[[nodiscard]] parallel::SequenceAttention::Heads heads_of(const Tensor& qkv, const HeadSizes& sizes);

/// Some of the layer's heads, as many key/value heads as any other group has, with their query heads.
struct HeadGroup {
  std::int64_t number, count;  ///< of groups

  [[nodiscard]] bool is_all() const { return count == 1; }
};

/// The group's part of `all` heads (T, n, D).
[[nodiscard]] Tensor heads_of_group(const HeadGroup& group, const Tensor& all);
/// The group's part of (n), one element for each head.
[[nodiscard]] Tensor rows_of_group(const HeadGroup& group, const Tensor& all);

/// The tensors of passes of attention: T tokens, compute dtype unless stated. With several groups of heads
/// (ActivationPolicy::head_groups) H and K are those of a group but for out, lse and dqkv: what one group has is in the
/// memory of the group before.
struct AttentionTensors {
  /// `all`: the heads of the rank.
  AttentionTensors(const SublayerTensors& own, const HeadSizes& all, const LayerPlan& plan);

  std::int64_t num_groups;
  HeadSizes sizes;  ///< of a group
  /// (T, (H + 2K) D) queries, keys and values; with LayerPlan::rotates_products() the first two are rotated in place.
  Tensor qkv;
  Tensor out;             ///< (T, H, D)
  Tensor lse;             ///< (T, H) float32, or (T, H) of one group after the other
  Tensor q_rstd, k_rstd;  ///< (T, H), (T, K) float32, or (T) of all heads; only with LayerPlan::QkNorm
  /// Heads that attention reads: columns of qkv; with LayerPlan::QkNorm normed and rotated queries and keys of their
  /// own.
  parallel::SequenceAttention::Heads heads;
  Tensor row_sums;  ///< (2 T) float32, with LayerPlan::QkNorm::all_heads: sums over tp, of queries, then of keys
  // Backward pass alone
  Tensor dattention;  ///< (T, H, D)
  Tensor dqkv;        ///< (T, (H + 2K) D)

  /// The tensors of the group.
  [[nodiscard]] AttentionTensors of_group(const HeadGroup& group) const;
};

/// Rotates the queries and keys of a product in place, if the layer rotates these.
void rotate_product(const Context& c, const AttentionParameters& p, const AttentionTensors& own,
                    const BlockScratch& scratch);
/// Norms queries and keys into memory of their own, if the layer has such norms, and rotates them if rotate_product()
/// did not.
void norm_heads(const Context& c, const AttentionParameters& p, const AttentionTensors& own,
                const BlockScratch& scratch);
/// The two, one after the other.
void rotate(const Context& c, const AttentionParameters& p, const AttentionTensors& own, const BlockScratch& scratch);
/// The gradients of the group's queries and keys, in place: of those that attention read, those of the product.
void rotate_backward(const Context& c, const AttentionParameters& p, const HeadGroup& group,
                     const AttentionTensors& own, const BlockScratch& scratch,
                     const parallel::SequenceAttention::Heads& gradients);

}  // namespace sft::model
