// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors that passes through a layer with experts work in. Pure: planning lays it out without a device.
//
// Legend, in addition to that of Sizes: E experts, k of which a token goes through, F columns of an expert on this
// rank, R rows of this rank's tokens in the order of experts (ops/calls/expert_rows.hpp), ExpertSizes::rows for T
// tokens; A rows, of all ranks' tokens, that arrive at this rank's experts, ExpertSizes::arriving_rows. Compute dtype
// unless stated.

#include <vector>

#include "sft/model/context.hpp"
#include "sft/model/sublayer_tensors.hpp"

namespace sft::model {

/// Decisions of the router, which are kept whatever the policy, so that no choice is made twice.
struct ExpertDecisions {
  explicit ExpertDecisions(const SublayerTensors& own);

  /// Decisions of the first `num_tokens` tokens.
  [[nodiscard]] ExpertDecisions first_tokens(std::int64_t num_tokens) const;

  Tensor logits;           ///< (T, E) float32
  Tensor experts;          ///< (T, k) int32
  Tensor weights;          ///< (T, k) float32
  Tensor choices;          ///< (R) int32
  Tensor rows;             ///< (T, k) int32
  Tensor counts, offsets;  ///< (E), (E + 1) int32
};

/// All else that experts work in.
struct ExpertTensors {
  explicit ExpertTensors(const SublayerTensors& own);

  /// (A, 2F), its gradient after the backward pass. A pass in several rounds keeps nothing.
  Tensor gate_up;
  bool keeps_gate_up;  ///< the block has it for itself
  Tensor rows;         ///< (R, C) tokens by row, what experts give, or the gradient of one of them
  Tensor arrived;      ///< (A, C) the same where the experts are; empty where ep has one rank: rows
  Tensor act;          ///< (ExpertSizes::act_rows, F) what SwiGLU gives, or its gradient, or codes of that of gate_up
  Tensor all_counts;   ///< (ep, E) int32
  Tensor low;          ///< (A r) of adapters of experts, of rank r at most: their products in the middle; or empty
  // Backward pass alone
  Tensor low_grad;         ///< (A r) their gradients, or empty
  Tensor dlogits;          ///< (T, E) float32
  Tensor dlogits_rounded;  ///< (T, E); the same where that is float32
  Tensor dweights;         ///< (T, k) float32
};

/// Both of a rank of `sizes`.
[[nodiscard]] std::vector<SublayerTensor> expert_tensors(const Sizes& sizes, const ActivationPolicy& policy);

}  // namespace sft::model
