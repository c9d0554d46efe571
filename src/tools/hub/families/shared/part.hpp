// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parts of a model by which the family is chosen that its config.json is made as.

#include "sft/config/config.hpp"

namespace sft::hub {

namespace part {

/// Bits of a number.
enum Part : unsigned {
  qkv_bias = 1U << 0U,   ///< on q, k and v alone
  qkvo_bias = 1U << 1U,  ///< on o, too
  o_bias = 1U << 2U,     ///< on o alone
  mlp_bias = 1U << 3U,
  qk_norm = 1U << 4U,
  unrotated_layers = 1U << 5U,
  multipliers = 1U << 6U,
  partial_rotation = 1U << 7U,
  longrope = 1U << 8U,
  growing_queries = 1U << 9U,
  norms_of_glm4 = 1U << 10U,
  windows = 1U << 11U,       ///< on all layers
  some_windows = 1U << 12U,  ///< by layer_types
  capped_scores = 1U << 13U,
  attention_sinks = 1U << 14U,
  experts = 1U << 15U,
  normed_weights = 1U << 16U,  ///< of a token's experts
  dense_layers = 1U << 17U,    ///< alongside layers with experts
  own_width = 1U << 18U,       ///< experts have another one than an MLP
  norms_of_olmo2 = 1U << 19U,
  norms_of_gemma2 = 1U << 20U,
  norm_of_all_heads = 1U << 21U,
  local_rope = 1U << 22U,
  gemma = 1U << 23U,          ///< norms, gate and embedding of Gemma
  gemma_in_part = 1U << 24U,  ///< some of these
  logit_cap = 1U << 25U,
  experts_of_gpt_oss = 1U << 26U,
  norm_of_rotated_heads = 1U << 27U,
  sigmoid_router = 1U << 28U,
  router_groups = 1U << 29U,  ///< or a factor of weights
  shared_experts = 1U << 30U,
  later_dense_layers = 1U << 31U,  ///< after some with experts
};

}  // namespace part

/// Models with all of the required parts, and of others none but the possible ones.
struct Choice {
  unsigned required, possible;
};

/// The parts that the model has.
[[nodiscard]] unsigned parts_of(const config::Model& model);

}  // namespace sft::hub
