// SPDX-License-Identifier: Apache-2.0
#pragma once
// One decoder block of Llama (Touvron et al. 2023), Qwen2 or Qwen3: x + attention(norm(x)), then + mlp(norm(.)).
// Forward and backward written out, no autograd.

#include "sft/device/arena.hpp"
#include "sft/model/architecture.hpp"
#include "sft/model/context.hpp"

namespace sft::model {

/// What the forward pass of one block keeps for its backward pass. Shapes as in Sizes; compute dtype unless stated.
struct BlockActivations {
  Tensor x;           ///< (T, C) the residual stream that enters
  Tensor input_rstd;  ///< (T) float32
  /// (T, (H + 2K) D) queries, keys and values; without qk_norm the first two are rotated in place.
  Tensor qkv;
  Tensor q_rstd, k_rstd;  ///< (T, H), (T, K) float32; only with qk_norm
  /// What attention reads: columns of qkv; with qk_norm normed and rotated queries and keys of their own.
  parallel::SequenceAttention::Heads heads;
  Tensor attention;    ///< (T, H, D)
  Tensor lse;          ///< (T, H) float32
  Tensor middle;       ///< (T, C) the residual stream between attention and MLP
  Tensor middle_rstd;  ///< (T) float32
  Tensor gate_up;      ///< (T, 2F); its gradient after the backward pass
};
/// Memory of `arena` for Sizes::tokens, contents undefined; so take_scratch.
[[nodiscard]] BlockActivations take_activations(device::Arena& arena, const Sizes& sizes, bool qk_norm);
/// Views of the first T = `num_tokens` rows of all that is there: what a pass over so many tokens works in.
[[nodiscard]] BlockActivations first_rows(BlockActivations all, std::int64_t num_tokens);

/// Buffers that all blocks share; nothing in them outlives one block but `delta`, `dx`, `cosine` and `sine`. Compute
/// dtype unless stated; "partial dtype" is Sizes::partial.
struct BlockScratch {
  Tensor normed;        ///< (T, C)
  Tensor qkv;           ///< (T, (H + 2K) D) the gradient of queries, keys and values
  Tensor act;           ///< (T, F)
  Tensor delta;         ///< (T, C) what the last sublayer adds to the residual stream; partial dtype
  Tensor dx;            ///< (T, C) gradient of the residual stream
  Tensor dnormed;       ///< (T, C) partial dtype
  Tensor dact;          ///< (T, F)
  Tensor dattention;    ///< (T, H, D)
  Tensor cosine, sine;  ///< (T, D/2) float32, of the micro-batch's positions
};
[[nodiscard]] BlockScratch take_scratch(device::Arena& arena, const Sizes& sizes);
/// What block_forward needs of it; the rest is empty.
[[nodiscard]] BlockScratch take_forward_scratch(device::Arena& arena, const Sizes& sizes);
[[nodiscard]] BlockScratch first_rows(BlockScratch all, std::int64_t num_tokens);

/// Runs the block, whose unit is in use; scratch.cosine and sine and the attention's schedule are set. The residual
/// stream enters as saved.x, or, when `previous` is not empty, as previous + scratch.delta, which is first written to
/// saved.x. Leaves saved.middle and scratch.delta, whose sum is the residual stream after the block. Collective over
/// the sp and tp groups.
void block_forward(const Context& context, const BlockParameters& parameters, const Tensor& previous,
                   BlockActivations& saved, BlockScratch& scratch);

/// scratch.dx: in, the gradient of the residual stream after the block; out, before it. Writes the unit's gradients,
/// which the caller reduces; the unit is in use. Collective over the sp and tp groups.
void block_backward(const Context& context, const BlockParameters& parameters, BlockActivations& saved,
                    BlockScratch& scratch);

}  // namespace sft::model
