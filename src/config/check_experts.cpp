// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>
#include <vector>

#include "config/checks.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"

namespace sft::config {

namespace {

constexpr std::int64_t max_experts = 1024, max_experts_per_token = 32;  // as far as the ops go

}  // namespace

void check_experts(const Config& config) {
  const Model& model = config.model;
  require(config, model.swiglu_alpha > 0, "model.swiglu_alpha", "above 0");
  require(config, model.swiglu_limit > 0, "model.swiglu_limit", "above 0");
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
  const auto require_size = [&](std::int64_t value, const char* name, std::int64_t high) {
    require(config, value >= 1 && value <= high, name, fmt::format("from 1 to {}", high));
  };
  require_size(model.num_experts, "model.num_experts", max_experts);
  require_size(model.num_experts_per_tok, "model.num_experts_per_tok",
               std::min(model.num_experts, max_experts_per_token));
  require_size(model.moe_intermediate_size, "model.moe_intermediate_size", max_width);
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
  if (model.mlp_bias) {
    throw_config_error("`model.mlp_bias` does not go with num_experts", "no model has biases on both", "leave it out");
  }
}

}  // namespace sft::config
