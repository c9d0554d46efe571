// SPDX-License-Identifier: Apache-2.0
#include "sft/model/layer_plan.hpp"

#include "sft/core/cast.hpp"

namespace sft::model {

std::vector<LayerPlan> layer_plans(const config::Model& model) {
  const LayerPlan layer{.attention = 0, .qk_norm = model.qk_norm ? LayerPlan::QkNorm::heads : LayerPlan::QkNorm::none};
  return std::vector<LayerPlan>(checked_cast<std::size_t>(model.num_hidden_layers), layer);
}

std::vector<std::int64_t> attention_windows(const config::Model& /*model*/) { return {0}; }

}  // namespace sft::model
