// SPDX-License-Identifier: Apache-2.0
#include "sft/model/layer_plan.hpp"

#include "sft/core/cast.hpp"
#include "sft/model/rope.hpp"

namespace sft::model {

std::vector<LayerPlan> layer_plans(const config::Model& model) {
  const LayerPlan common{.query_rope = checked_cast<int>(ropes(model).size()) - 1,
                         .qk_norm = model.qk_norm ? LayerPlan::QkNorm::heads : LayerPlan::QkNorm::none,
                         .residual_multiplier = static_cast<float>(model.residual_multiplier),
                         .norms_branches = model.block_norms == config::BlockNorms::glm4};
  std::vector<LayerPlan> plans(checked_cast<std::size_t>(model.num_hidden_layers), common);
  for (std::size_t layer = 0; layer < plans.size(); ++layer) {
    if (!model.rotates(layer)) plans[layer].rope.reset();
  }
  return plans;
}

sequence::AttentionWindows attention_windows(const config::Model& /*model*/) { return {0}; }

}  // namespace sft::model
