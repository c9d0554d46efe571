// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of decoder blocks: what each has for itself, and what all share. Pure: planning lays it out without a
// device.

#include <cstdint>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/model/architecture.hpp"
#include "sft/model/context.hpp"
#include "sft/model/rope_tables.hpp"
#include "sft/model/sublayer_tensors.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::model {

class RouterBalance;

/// The memory of a pass through a sublayer, without BlockScratch.
struct SublayerBuffers {
  /// The residual stream where the sublayer reads it, and what that adds to it; S tokens of this rank (Sizes).
  ///   "x" (S, C); with LayerPlan::norms_inputs "rstd" (S) float32, of its norm
  ///   with LayerPlan::norms_branches, of what is added, before its norm: "branch" (S, C), "branch_rstd" (S) float32
  SublayerTensors stream;
  SublayerTensors own;  ///< Sublayer::tensors
};

/// One for each sublayer of a block, in their order.
using BlockBuffers = std::vector<SublayerBuffers>;
using AllBlockBuffers = IndexedVector<BlockIndex, BlockBuffers>;

/// Buffers that all blocks share; nothing in them outlives one sublayer but `delta`, `dx` and `ropes`. Compute dtype
/// unless stated; "partial dtype" is Sizes::partial. Some share memory, as they are never needed at the same time:
/// normed with what sublayers place over it, delta with dnormed. In the forward pass dx has the residual stream after
/// the last block, until its own gradient takes its place. Of normed, delta, dnormed and dx this rank has
/// TensorParallel::slice between two products, in its place.
struct BlockScratch {
  Tensor normed;                     ///< (T, C)
  Tensor delta;                      ///< (T, C) what the last sublayer adds to the residual stream; partial dtype
  Tensor dnormed;                    ///< (T, C) partial dtype
  Tensor dx;                         ///< (T, C) gradient of the residual stream
  Tensor dbranch;                    ///< (T, C) gradient of what a sublayer adds: dx, or memory of its own
  RopeTables ropes;                  ///< of the micro-batch's positions
  RouterBalance* balance = nullptr;  ///< where choices of experts are counted; null: nowhere
  std::int64_t num_padding = 0;      ///< tokens at the end of the micro-batch that stand in no document
  /// normed, delta and dnormed are one memory. So gradients of weights, which read normed, come before dnormed, tile by
  /// tile; with several ranks of tp dnormed comes first, as its sum runs beside them.
  bool shares_branch_memory = false;
};

/// Buffers of all blocks for Sizes::tokens, without memory yet.
[[nodiscard]] AllBlockBuffers make_block_buffers(const DecoderParameters& parameters, const Sizes& sizes,
                                                 const ActivationPolicy& policy);

/// The largest sizes that ops of any layer are called with, on any rank of tp: scratch memory and what else follows
/// from it is the same on all of them.
[[nodiscard]] ops::Shapes op_shapes(const DecoderParameters& parameters, const Sizes& sizes);

/// Takes what the blocks share, and the scratch memory of all sublayers. `tp_sums`: for what is summed over tp.
[[nodiscard]] BlockScratch take_scratch(device::Arena& arena, device::Arena& tp_sums, const Sizes& sizes,
                                        const config::Model& model, const DecoderParameters& parameters,
                                        AllBlockBuffers& blocks);
/// Takes the part that forward passes need; the rest is empty.
[[nodiscard]] BlockScratch take_forward_scratch(device::Arena& arena, const Sizes& sizes, const config::Model& model,
                                                AllBlockBuffers& blocks);
/// Whether a tensor is kept by its block under the policy, or shared by the blocks until a backward pass reads it.
enum class Share { kept, shared };
void take_activations(device::Arena& arena, const ActivationPolicy& policy, Share share, BlockBuffers& block);

/// The tensors that a block keeps under the policy, in a fixed order.
[[nodiscard]] std::vector<Tensor> kept_tensors(const BlockBuffers& block, const ActivationPolicy& policy);
/// Views for a pass over the first `num_tokens` of all tokens, whose number `sizes` has.
[[nodiscard]] BlockBuffers first_tokens(BlockBuffers all, const Sizes& sizes, std::int64_t num_tokens);
[[nodiscard]] BlockScratch first_tokens(BlockScratch all, std::int64_t num_tokens);

}  // namespace sft::model
