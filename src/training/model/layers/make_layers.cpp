// SPDX-License-Identifier: Apache-2.0
#include "model/layers/make_layers.hpp"

#include <array>

#include "sft/model/layers/attention.hpp"
#include "sft/model/layers/dense_mlp.hpp"
#include "sft/model/layers/expert_mlp.hpp"

namespace sft::model {

namespace {

struct NormNames {
  const char *input, *branch;
};

/// Names for the first sublayer of a block, and for the second.
std::array<NormNames, 2> norm_names(config::BlockNorms norms) {
  switch (norms) {
    case config::BlockNorms::pre:
      return {{{"input_layernorm", ""}, {"post_attention_layernorm", ""}}};
    case config::BlockNorms::glm4:
      return {{{"input_layernorm", "post_self_attn_layernorm"}, {"post_attention_layernorm", "post_mlp_layernorm"}}};
    case config::BlockNorms::olmo2:
      return {{{"", "post_attention_layernorm"}, {"", "post_feedforward_layernorm"}}};
    case config::BlockNorms::gemma2:
      return {{{"input_layernorm", "post_attention_layernorm"},
               {"pre_feedforward_layernorm", "post_feedforward_layernorm"}}};
  }
  return {};
}

}  // namespace

std::vector<SublayerPlan> plan_sublayers(const config::Model& model, const LayerPlan& plan, std::size_t block) {
  const auto make_attention = [&](UnitBuilder& unit, const std::string& path) {
    return std::make_shared<Attention>(unit, model, plan, path);
  };
  const auto make_mlp = [&, block](UnitBuilder& unit, const std::string& path) -> std::shared_ptr<Sublayer> {
    if (model.has_experts(block)) return std::make_shared<ExpertMlp>(unit, model, plan, path);
    return std::make_shared<DenseMlp>(unit, model, path);
  };
  const auto [first, second] = norm_names(model.block_norms);
  return {{"self_attn", first.input, first.branch, make_attention}, {"mlp", second.input, second.branch, make_mlp}};
}

}  // namespace sft::model
