// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "config/checks.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

constexpr std::int64_t max_groups = 32;  // as far as the ops go

void check_groups(const Model& model) {
  const std::string key = fmt::format("`model.n_group = {}`", model.n_group);
  if (model.scoring_func != ScoringFunc::sigmoid) {
    throw_config_error(fmt::format("{} does not go with scoring_func = softmax", key),
                       "the score of a group is the sum of its two largest sigmoid scores",
                       "set scoring_func = sigmoid, or leave n_group out");
  }
  const std::int64_t size = model.num_experts / model.n_group;
  if (model.n_group > max_groups || model.num_experts % model.n_group != 0 || size < 2) {
    throw_config_error(fmt::format("{} does not fit the experts", key),
                       fmt::format("num_experts = {} form up to {} groups of equally many, two at least",
                                   model.num_experts, max_groups),
                       "set it to a divisor of num_experts / 2");
  }
  if (model.topk_group > model.n_group || model.num_experts_per_tok > model.topk_group * size) {
    throw_config_error(
        fmt::format("`model.topk_group = {}` does not fit n_group = {}", model.topk_group, model.n_group),
        fmt::format("there are {} groups of {} experts, and a token goes through {}", model.n_group, size,
                    model.num_experts_per_tok),
        "set it so that these groups have the experts of a token");
  }
}

}  // namespace

void check_routers(const Config& config) {
  const Model& model = config.model;
  const Model none;
  const bool is_given = model.scoring_func != none.scoring_func || model.n_group != 1 || model.topk_group != 1 ||
                        model.routed_scaling_factor != 1.0 || model.n_shared_experts != 0;
  if (!is_given) return;
  if (model.num_experts == 0) {
    throw_config_error("[model] has keys of routers and no experts",
                       "num_experts = 0, beside scoring_func, n_group, topk_group, routed_scaling_factor or "
                       "n_shared_experts",
                       "set num_experts, or leave them out");
  }
  require(config, model.routed_scaling_factor > 0, "model.routed_scaling_factor", "above 0");
  if (model.n_shared_experts != 0) {
    require(config, model.n_shared_experts <= max_width / model.moe_intermediate_size, "model.n_shared_experts",
            fmt::format("so that they are at most {} wide together", max_width));
  }
  if (model.n_group != 1 || model.topk_group != 1) check_groups(model);
  if (model.scoring_func == ScoringFunc::sigmoid && model.router_aux_loss_coef != 0) {
    throw_config_error("`model.scoring_func = sigmoid` does not go with an auxiliary loss",
                       fmt::format("router_aux_loss_coef = {}, and that loss is one of softmax scores",
                                   write(model.router_aux_loss_coef)),
                       "set router_aux_loss_coef = 0");
  }
}

}  // namespace sft::config
