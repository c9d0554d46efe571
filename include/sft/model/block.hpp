// SPDX-License-Identifier: Apache-2.0
#pragma once
// One decoder block: x + f(norm(x)) for its sublayers f, one after the other: attention and an MLP in Llama (Touvron et
// al. 2023); LayerPlan says how families differ from that. Forward and backward written out, no autograd.

#include <cstdint>
#include <vector>

#include "sft/model/architecture.hpp"
#include "sft/model/block_buffers.hpp"
#include "sft/model/context.hpp"

namespace sft::model {

class CachedAttention;

/// Runs the block and enters its units; scratch.ropes and the attention's schedule are set. The residual stream enters
/// as "x" of the first sublayer's stream, or, when `previous` is not empty, as previous + scratch.delta, which is first
/// written there. Leaves "x" of the last sublayer's stream and the slice of scratch.delta, whose sum is the residual
/// stream after the block. Collective over the sp and tp groups.
void block_forward(const Context& context, const BlockParameters& parameters, const Tensor& previous,
                   BlockBuffers& buffers, BlockScratch& scratch);

/// The state that each sublayer of a block keeps of a text that is generated.
using BlockTextState = std::vector<SublayerTensors>;
/// block_forward() of tokens after the `num_before` that `state` is of.
void block_generate(const Context& context, const BlockParameters& parameters, const Tensor& previous,
                    BlockBuffers& buffers, BlockScratch& scratch, const BlockTextState& state, std::int64_t num_before,
                    CachedAttention& attention);

/// Computes again, from what the policy keeps, all that block_backward reads and does not compute again by itself:
/// with the same bits. Enters the block's units; scratch.ropes and the attention's schedule are those of the forward
/// pass. Nothing where all is kept. Collective over the tp group, with shared products over the sp group too.
void block_recompute(const Context& context, const BlockParameters& parameters, const ActivationPolicy& policy,
                     BlockBuffers& buffers, BlockScratch& scratch);

/// The slice of scratch.dx: in, the gradient of the residual stream after the block; out, before it. `buffers` have
/// what the forward pass or block_recompute left; MLPs compute again what no block keeps of them. Writes
/// gradients and enters its units. Collective over the sp and tp groups.
void block_backward(const Context& context, const BlockParameters& parameters, BlockBuffers& buffers,
                    BlockScratch& scratch);

}  // namespace sft::model
