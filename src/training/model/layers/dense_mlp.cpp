// SPDX-License-Identifier: Apache-2.0
#include "sft/model/layers/dense_mlp.hpp"

#include <algorithm>

#include "model/layers/gated_mlp.hpp"
#include "model/linear/declare.hpp"

namespace sft::model {

DenseMlp::DenseMlp(UnitBuilder& unit, const config::Model& model, const std::string& path) {
  linears_ = declare_gated_mlp(unit, model, path, model.intermediate_size);
  if (!model.mlp_bias) return;
  for (Linear& layer : linears_) declare_bias(unit, layer);
}

std::vector<SublayerTensor> DenseMlp::tensors(const Sizes& sizes, const ActivationPolicy& policy) const {
  return gated_mlp_tensors(sizes, policy, linears_);
}

std::int64_t DenseMlp::pass_tokens(const Sizes& sizes, const ActivationPolicy& policy) const {
  return gated_mlp_tile_tokens(sizes, policy);
}

void DenseMlp::fit_shapes(const Sizes& sizes, ops::Shapes& shapes) const {
  shapes.mlp = std::max(shapes.mlp, linears_[1].columns_in(sizes.tp_size));
}

void DenseMlp::forward(const Context& c, SublayerTensors& own, BlockScratch& scratch) const {
  timed(c, "MLP forward", [&] { GatedMlp(linears_, own).forward(c, scratch); });
}

void DenseMlp::backward(const Context& c, SublayerTensors& own, BlockScratch& scratch,
                        const std::function<void()>& start_normed) const {
  timed(c, "MLP backward", [&] { GatedMlp(linears_, own).backward(c, scratch, start_normed); });
}

}  // namespace sft::model
