// SPDX-License-Identifier: Apache-2.0
#pragma once
// The MLP of a dense block: down(f(gate(x)) * up(x)) with f = silu (SwiGLU, Shazeer 2020) or gelu (Gemma), in tiles of
// tokens where the policy asks for them (Bekman et al. 2025).

#include <functional>
#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

class UnitBuilder;

class DenseMlp final : public Sublayer {
 public:
  /// `path`: of its module, "model.layers.0.mlp".
  DenseMlp(UnitBuilder& unit, const config::Model& model, const std::string& path);

  [[nodiscard]] std::vector<SublayerTensor> tensors(const Sizes& sizes, const ActivationPolicy& policy) const override;
  [[nodiscard]] std::int64_t pass_tokens(const Sizes& sizes, const ActivationPolicy& policy) const override;
  void fit_shapes(const Sizes& sizes, ops::Shapes& shapes) const override;
  void forward(const Context& context, SublayerTensors& own, BlockScratch& scratch) const override;
  void backward(const Context& context, SublayerTensors& own, BlockScratch& scratch,
                const std::function<void()>& start_normed) const override;
};

}  // namespace sft::model
