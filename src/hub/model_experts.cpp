// SPDX-License-Identifier: Apache-2.0
// Fields of experts in config.json.

#include <algorithm>

#include "model_config_parts.hpp"

namespace sft::hub {

namespace {

/// Layers with experts: all but those of `mlp_only_layers`, and of these every decoder_sparse_step-th.
void read_dense_layers(ConfigFields& fields, config::Model& model) {
  const std::int64_t step = fields.integer("decoder_sparse_step", 1);
  if (step == 0) fields.refuse("decoder_sparse_step", "it counts layers", "correct config.json");
  const std::vector<int> dense = fields.integers("mlp_only_layers");
  for (int layer = 0; layer < model.num_hidden_layers; ++layer) {
    const bool has_experts = (layer + 1) % step == 0 && std::ranges::find(dense, layer) == dense.end();
    if (!has_experts) model.mlp_only_layers.push_back(layer);
  }
}

}  // namespace

void read_experts(ConfigFields& fields, Family family, config::Model& model) {
  constexpr double default_coefficient = 0.001;
  const std::int64_t default_experts = family == Family::mixtral ? 8 : 128;
  const std::int64_t default_choices = family == Family::mixtral ? 2 : family == Family::gpt_oss ? 4 : 8;
  model.num_experts = fields.integer("num_experts", fields.integer("num_local_experts", default_experts));
  model.num_experts_per_tok = fields.integer("num_experts_per_tok", default_choices);
  static_cast<void>(fields.value("output_router_logits"));  // router_aux_loss_coef decides, as in TRL
  model.router_aux_loss_coef = fields.number("router_aux_loss_coef", default_coefficient);
  if (family == Family::mixtral) {
    model.moe_intermediate_size = model.intermediate_size;
    model.norm_topk_prob = true;
    if (fields.number("router_jitter_noise", 0.0) != 0.0) {
      fields.refuse("router_jitter_noise", "there is no noise on what routers read", "set it to 0 in config.json");
    }
    return;
  }
  if (family == Family::gpt_oss) {
    model.moe_intermediate_size = model.intermediate_size;
    model.norm_topk_prob = true;  // a softmax of the chosen experts' logits
    model.expert_form = config::ExpertForm::gpt_oss;
    model.swiglu_alpha = fields.number("swiglu_alpha", model.swiglu_alpha);
    model.swiglu_limit = fields.number("swiglu_limit", model.swiglu_limit);
    // Fields that repeat others.
    for (const char* name : {"experts_per_token", "initial_context_length"}) static_cast<void>(fields.value(name));
    return;
  }
  constexpr std::int64_t default_width = 768;
  model.moe_intermediate_size = fields.integer("moe_intermediate_size", default_width);
  model.norm_topk_prob = fields.truth("norm_topk_prob", false);
  read_dense_layers(fields, model);
  if (model.num_expert_layers() == 0) fields.refuse("num_experts", "no layer has experts", other_model);
}

void read_experts_of_glm(ConfigFields& fields, config::Model& model) {
  for (const char* name : {"num_nextn_predict_layers", "num_mtp_layers", "output_router_logits"}) {
    static_cast<void>(fields.value(name));
  }
  model.scoring_func = config::ScoringFunc::sigmoid;
  model.router_aux_loss_coef = 0.0;
  model.num_experts = fields.integer("n_routed_experts", fields.integer("num_local_experts", 128));
  model.num_experts_per_tok = fields.integer("num_experts_per_tok", 8);
  model.moe_intermediate_size = fields.integer("moe_intermediate_size", 1408);
  model.norm_topk_prob = fields.truth("norm_topk_prob", true);
  model.routed_scaling_factor = fields.number("routed_scaling_factor", 1.0);
  model.n_group = fields.integer("n_group", 1);
  model.topk_group = fields.integer("topk_group", 1);
  model.n_shared_experts = fields.integer("n_shared_experts", 1);
  if (model.n_shared_experts == 0) {
    fields.refuse("n_shared_experts", "an MLP stands beside the experts of this family", other_model);
  }
  const std::int64_t num_dense = fields.integer("first_k_dense_replace", 1);
  for (int layer = 0; layer < std::min(num_dense, model.num_hidden_layers); ++layer) {
    model.mlp_only_layers.push_back(layer);
  }
  if (model.num_expert_layers() == 0) fields.refuse("first_k_dense_replace", "no layer has experts", other_model);
}

}  // namespace sft::hub
