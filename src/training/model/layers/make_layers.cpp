// SPDX-License-Identifier: Apache-2.0
#include "model/layers/make_layers.hpp"

#include "sft/model/layers/attention.hpp"
#include "sft/model/layers/dense_mlp.hpp"
#include "sft/model/layers/expert_mlp.hpp"

namespace sft::model {

std::shared_ptr<Sublayer> make_mixer(UnitBuilder& unit, const config::Model& model, const LayerPlan& plan,
                                     const BlockPlace& block) {
  return std::make_shared<Attention>(unit, model, plan, block.path + ".self_attn");
}

std::shared_ptr<Sublayer> make_mlp(UnitBuilder& unit, const config::Model& model, const LayerPlan& plan,
                                   const BlockPlace& block) {
  const std::string path = block.path + ".mlp";
  switch (plan.mlp) {
    case LayerPlan::MlpKind::experts:
      return std::make_shared<ExpertMlp>(unit, model, plan, path);
    case LayerPlan::MlpKind::dense:
      break;
  }
  return std::make_shared<DenseMlp>(unit, model, path);
}

}  // namespace sft::model
