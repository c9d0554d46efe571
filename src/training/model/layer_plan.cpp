// SPDX-License-Identifier: Apache-2.0
#include "sft/model/layer_plan.hpp"

#include <algorithm>
#include <utility>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/model/rope.hpp"

namespace sft::model {

namespace {

sequence::AttentionKind kind_of(const sequence::AttentionWindows& windows, std::int64_t window) {
  for (const sequence::AttentionKind kind : windows.indices()) {
    if (windows[kind] == window) return kind;
  }
  SFT_ENSURE(false, "every layer's window is in the list");
  return {};
}

}  // namespace

std::vector<LayerPlan> layer_plans(const config::Model& model) {
  using QkNorm = LayerPlan::QkNorm;
  const QkNorm qk_norm = model.qk_norm_all_heads ? QkNorm::all_heads : QkNorm::heads;
  const int last_rope = checked_cast<int>(ropes(model).size()) - 1;
  const LayerPlan common{.attention = {},
                         .query_rope = model.llama_4_scaling_beta != 0.0 ? last_rope : 0,
                         .qk_norm = model.qk_norm ? qk_norm : QkNorm::none,
                         .norms_rotated = model.qk_norm_after_rope,
                         .rotates_in_part = model.rotary_dim() != model.head_dim,
                         .has_sinks = model.attention_sinks,
                         .residual_multiplier = static_cast<float>(model.residual_multiplier),
                         .norms_inputs = model.norms_inputs(),
                         .norms_branches = model.norms_branches()};
  const sequence::AttentionWindows windows = attention_windows(model);
  std::vector<LayerPlan> plans(checked_cast<std::size_t>(model.num_hidden_layers), common);
  int num_expert_layers = 0;
  for (std::size_t layer = 0; layer < plans.size(); ++layer) {
    if (model.has_experts(layer)) plans[layer].expert_layer = num_expert_layers++;
    if (model.has_local_rope(layer)) plans[layer].rope = plans[layer].query_rope = last_rope;
    if (!model.rotates(layer)) plans[layer].rope.reset();
    plans[layer].attention = kind_of(windows, model.window_of(layer));
  }
  return plans;
}

sequence::AttentionWindows attention_windows(const config::Model& model) {
  sequence::AttentionWindows windows;
  for (std::size_t layer = 0; std::cmp_less(layer, model.num_hidden_layers); ++layer) {
    const std::int64_t window = model.window_of(layer);
    if (std::ranges::find(windows, window) == windows.end()) windows.push_back(window);
  }
  return windows;
}

}  // namespace sft::model
