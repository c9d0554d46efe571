// SPDX-License-Identifier: Apache-2.0
#pragma once
// The attention of a block: products, norms and rotation of queries and keys, attention, and the product behind it. The
// block around it has the residual stream, the norms and the sums over tp of what it adds.

#include <functional>

#include "sft/model/architecture.hpp"
#include "sft/model/block_buffers.hpp"
#include "sft/model/context.hpp"

namespace sft::model {

// Collective over the sp and tp groups. The block's attention_unit is in use; scratch.ropes and the attention's
// schedules are set.

/// scratch.delta (T, C) = this rank's term of what attention gives for scratch.normed (T, C).
void attention_forward(const Context& context, const BlockParameters& parameters, AttentionActivations& saved,
                       BlockScratch& scratch);

/// Computes again, from what the policy keeps, what attention_backward reads, and scratch.delta: with the same bits.
/// scratch.normed is read unless the policy keeps products. Nobody calls it where all is kept.
void attention_recompute(const Context& context, const BlockParameters& parameters, const ActivationPolicy& policy,
                         AttentionActivations& saved, BlockScratch& scratch);

/// Of scratch.dbranch (T, C), the gradient of what attention gives: the slice of scratch.dnormed (T, C), summed over
/// tp, and the gradients of the parameters. `start_normed` as in Mlp::backward.
void attention_backward(const Context& context, const BlockParameters& parameters, AttentionActivations& saved,
                        BlockScratch& scratch, const std::function<void()>& start_normed);

}  // namespace sft::model
