// SPDX-License-Identifier: Apache-2.0
#include "hub/families/shared/part.hpp"

#include <algorithm>
#include <cmath>

#include "hub/families/shared/gemma.hpp"

namespace sft::hub {

namespace {

/// Whether the model has what is the same in Gemma 2 and 3: all of it, some of it or nothing.
std::uint64_t parts_of_gemma(const config::Model& model) {
  const bool has_gelu = model.hidden_act == config::Activation::gelu_pytorch_tanh;
  if (!has_gelu && !model.zero_centered_norms && !model.rounds_embedding_multiplier) return 0;
  const double root = std::sqrt(static_cast<double>(model.hidden_size)), divisor = score_divisor_of(model);
  const bool has_all = has_gelu && model.zero_centered_norms && model.rounds_embedding_multiplier &&
                       std::abs(model.embedding_multiplier - root) <= 1e-9 * root &&
                       std::abs(divisor - std::round(divisor)) <= 1e-9 * divisor;
  return has_all ? part::gemma : part::gemma_in_part;
}

std::uint64_t parts_of_experts(const config::Model& model) {
  std::uint64_t parts = part::experts;
  if (model.norm_topk_prob) parts |= part::normed_weights;
  if (model.has_dense_layers()) parts |= part::dense_layers;
  const auto is_later = [&](int layer) { return layer >= std::ssize(model.mlp_only_layers); };
  if (std::ranges::any_of(model.mlp_only_layers, is_later)) parts |= part::later_dense_layers;
  if (model.moe_intermediate_size != model.intermediate_size) parts |= part::own_width;
  if (model.expert_form == config::ExpertForm::gpt_oss) parts |= part::experts_of_gpt_oss;
  if (model.scoring_func == config::ScoringFunc::sigmoid) parts |= part::sigmoid_router;
  if (model.n_group != 1 || model.routed_scaling_factor != 1.0) parts |= part::router_groups;
  if (model.n_shared_experts > 0) parts |= part::shared_experts;
  return parts;
}

}  // namespace

std::uint64_t parts_of(const config::Model& model) {
  std::uint64_t parts = parts_of_gemma(model);
  const bool has_scaled_embedding = model.embedding_multiplier != 1.0 || model.attention_multiplier != 0.0;
  const bool has_multipliers =
      (has_scaled_embedding && parts != part::gemma) || model.residual_multiplier != 1.0 || model.logits_scaling != 1.0;
  if (model.attention_bias) parts |= model.attention_output_bias ? part::qkvo_bias : part::qkv_bias;
  if (model.attention_output_bias && !model.attention_bias) parts |= part::o_bias;
  if (model.hidden_act == config::Activation::relu2) parts |= part::squared_relu;
  if (!model.gated_mlp) parts |= part::no_gate;
  if (model.mlp_bias) parts |= part::mlp_bias;
  if (model.qk_norm) parts |= part::qk_norm;
  if (!model.no_rope_layers.empty()) parts |= part::unrotated_layers;
  if (has_multipliers) parts |= part::multipliers;
  if (model.partial_rotary_factor != 1.0) parts |= part::partial_rotation;
  if (model.rope_scaling.rope_type == config::RopeType::longrope) parts |= part::longrope;
  if (model.llama_4_scaling_beta != 0.0) parts |= part::growing_queries;
  if (model.sliding_window > 0) parts |= model.layer_types.empty() ? part::windows : part::some_windows;
  if (model.block_norms == config::BlockNorms::glm4) parts |= part::norms_of_glm4;
  if (model.block_norms == config::BlockNorms::olmo2) parts |= part::norms_of_olmo2;
  if (model.block_norms == config::BlockNorms::gemma2) parts |= part::norms_of_gemma2;
  if (model.qk_norm_all_heads) parts |= part::norm_of_all_heads;
  if (model.qk_norm_after_rope) parts |= part::norm_of_rotated_heads;
  if (model.rope_local_base_freq != 0.0) parts |= part::local_rope;
  if (model.final_logit_softcapping != 0.0) parts |= part::logit_cap;
  if (model.attn_logit_softcapping > 0.0) parts |= part::capped_scores;
  if (model.attention_sinks) parts |= part::attention_sinks;
  if (model.num_experts > 0) parts |= parts_of_experts(model);
  return parts;
}

}  // namespace sft::hub
