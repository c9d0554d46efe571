// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <vector>

#include "config/checks.hpp"
#include "config/refusals.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"

namespace sft::config {

namespace {

constexpr std::int64_t max_experts = 1024, max_experts_per_token = 32;  // as far as the ops go

}  // namespace

void check_experts(const Config& config) {
  const Model& model = config.model;
  Refusals refusals;
  refusals.require(config, model.swiglu_alpha > 0, "model.swiglu_alpha", "above 0");
  refusals.require(config, model.swiglu_limit > 0, "model.swiglu_limit", "above 0");
  if (model.num_experts != 0) {
    refusals.require_size(config, model.num_experts, "model.num_experts", max_experts);
    const std::int64_t most_of_token = std::clamp<std::int64_t>(model.num_experts, 1, max_experts_per_token);
    refusals.require_size(config, model.num_experts_per_tok, "model.num_experts_per_tok", most_of_token);
    refusals.require_size(config, model.moe_intermediate_size, "model.moe_intermediate_size", max_width);
  }
  refusals.throw_if_any();
  if (model.num_experts == 0) {
    const bool is_given = model.expert_form != ExpertForm::swiglu || model.num_experts_per_tok != 0 ||
                          model.moe_intermediate_size != 0 || model.norm_topk_prob || !model.mlp_only_layers.empty() ||
                          model.router_aux_loss_coef != Model{}.router_aux_loss_coef;
    if (!is_given) return;
    throw_config_error("[model] has keys of experts and no experts",
                       "num_experts = 0, beside num_experts_per_tok, moe_intermediate_size, norm_topk_prob, "
                       "mlp_only_layers or router_aux_loss_coef",
                       "set num_experts, or leave them out");
  }
  const std::vector<int>& dense = model.mlp_only_layers;
  if (std::ranges::any_of(dense, [&](int layer) { return layer < 0 || layer >= model.num_hidden_layers; })) {
    throw_config_error("`model.mlp_only_layers` names a layer that is not there",
                       fmt::format("there are {}, counted from 0", plural(model.num_hidden_layers, "layer")),
                       "correct the list");
  }
  if (model.num_expert_layers() == 0) {
    throw_config_error("`model.mlp_only_layers` leaves no layer with experts",
                       fmt::format("num_experts = {}", model.num_experts), "shorten the list, or set num_experts = 0");
  }
  if (!model.gated_mlp) {
    throw_config_error("`model.gated_mlp = false` does not go with num_experts", "experts have gates", "leave it out");
  }
  if (model.mlp_bias) {
    throw_config_error("`model.mlp_bias` does not go with num_experts", "no model has biases on both", "leave it out");
  }
}

}  // namespace sft::config
