// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parts of a model by which the family is chosen that its config.json is made as.

#include <cstdint>

#include "sft/config/config.hpp"

namespace sft::hub {

namespace part {

/// Bits of a number.
enum Part : std::uint64_t {
  qkv_bias = 1ULL << 0U,   ///< on q, k and v alone
  qkvo_bias = 1ULL << 1U,  ///< on o, too
  o_bias = 1ULL << 2U,     ///< on o alone
  mlp_bias = 1ULL << 3U,
  qk_norm = 1ULL << 4U,
  unrotated_layers = 1ULL << 5U,
  multipliers = 1ULL << 6U,
  partial_rotation = 1ULL << 7U,
  longrope = 1ULL << 8U,
  growing_queries = 1ULL << 9U,
  norms_of_glm4 = 1ULL << 10U,
  windows = 1ULL << 11U,       ///< on all layers
  some_windows = 1ULL << 12U,  ///< by layer_types
  capped_scores = 1ULL << 13U,
  attention_sinks = 1ULL << 14U,
  experts = 1ULL << 15U,
  normed_weights = 1ULL << 16U,  ///< of a token's experts
  dense_layers = 1ULL << 17U,    ///< alongside layers with experts
  own_width = 1ULL << 18U,       ///< experts have another one than an MLP
  norms_of_olmo2 = 1ULL << 19U,
  norms_of_gemma2 = 1ULL << 20U,
  norm_of_all_heads = 1ULL << 21U,
  local_rope = 1ULL << 22U,
  gemma = 1ULL << 23U,          ///< norms, gate and embedding of Gemma
  gemma_in_part = 1ULL << 24U,  ///< some of these
  logit_cap = 1ULL << 25U,
  experts_of_gpt_oss = 1ULL << 26U,
  norm_of_rotated_heads = 1ULL << 27U,
  sigmoid_router = 1ULL << 28U,
  router_groups = 1ULL << 29U,  ///< or a factor of weights
  shared_experts = 1ULL << 30U,
  later_dense_layers = 1ULL << 31U,  ///< after some with experts
  squared_relu = 1ULL << 32U,
  no_gate = 1ULL << 33U,  ///< in MLPs
};

}  // namespace part

/// Models with all of the required parts, and of others none but the possible ones.
struct Choice {
  std::uint64_t required, possible;
};

/// The parts that the model has.
[[nodiscard]] std::uint64_t parts_of(const config::Model& model);

}  // namespace sft::hub
