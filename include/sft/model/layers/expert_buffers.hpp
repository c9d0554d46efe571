// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of layers with experts. Pure: planning lays it out without a device.
//
// Legend, beside that of Sizes: E experts, k of which a token goes through, F columns of an expert on this rank, R
// rows of this rank's tokens in the order of experts (ops/calls/expert_rows.hpp), Sizes::expert_rows for T tokens; A
// rows, of all ranks' tokens, that arrive at this rank's experts, Sizes::arriving_rows. Compute dtype unless stated.

#include <cstdint>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/model/context.hpp"
#include "sft/parallel/expert_exchange.hpp"

namespace sft::model {

/// What the forward pass of a layer leaves for its backward pass.
struct ExpertActivations {
  // Input: what the router decided, kept whatever the policy, so that no choice is made twice
  Tensor logits;           ///< (T, E) float32
  Tensor experts;          ///< (T, k) int32
  Tensor weights;          ///< (T, k) float32
  Tensor choices;          ///< (R) int32
  Tensor rows;             ///< (T, k) int32
  Tensor counts, offsets;  ///< (E), (E + 1) int32
  // Products
  /// (A, 2F), its gradient after the backward pass; empty where no block keeps it. Of a pass in several rounds nothing
  /// is kept.
  Tensor gate_up;

  parallel::ExpertRoute route;  ///< on the host, once the forward pass has waited for the counts
};

/// Takes what is kept in any case.
void take_decisions(ExpertActivations& activations, device::Arena& arena, const Sizes& sizes);
/// Takes the products.
void take_expert_products(ExpertActivations& activations, device::Arena& arena, const Sizes& sizes);
/// Those of take_decisions; empty ones where no layer has experts.
[[nodiscard]] std::vector<Tensor> decisions_of(const ExpertActivations& activations);
/// Views for the first T = `num_tokens` tokens; as it is where there are no experts.
[[nodiscard]] ExpertActivations first_tokens(ExpertActivations all, std::int64_t num_tokens);

/// What all layers with experts share; nothing in it outlives a pass through one.
struct ExpertScratch {
  Tensor rows;        ///< (R, C) tokens by row, what experts give, or the gradient of one of them
  Tensor arrived;     ///< (A, C) the same where the experts are; empty where ep has one rank: rows
  Tensor act;         ///< (Sizes::act_rows, F) what SwiGLU gives, or its gradient, or codes of that of gate_up
  Tensor gate_up;     ///< (A, 2F) where no block keeps it, else empty
  Tensor all_counts;  ///< (ep, E) int32
  Tensor low;         ///< (A r) of adapters of experts, of rank r at most: their products in the middle; or empty
  // Backward pass alone
  Tensor low_grad;         ///< (A r) their gradients, or empty
  Tensor dlogits;          ///< (T, E) float32
  Tensor dlogits_rounded;  ///< (T, E); the same where that is float32
  Tensor dweights;         ///< (T, k) float32
};
/// For a forward pass whose blocks keep their products.
[[nodiscard]] ExpertScratch take_forward_expert_scratch(device::Arena& arena, const Sizes& sizes);
[[nodiscard]] ExpertScratch take_expert_scratch(device::Arena& arena, const Sizes& sizes, bool keeps_products);

}  // namespace sft::model
