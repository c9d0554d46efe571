// SPDX-License-Identifier: Apache-2.0
#pragma once
// The MLP of a layer with experts (Shazeer et al. 2017): a router sends each token through k of them, none is dropped,
// and what they give is added up with the router's weights. Padding goes through none. Over tp every expert is cut by
// columns, as a dense MLP is, and all ranks route alike. Over ep each rank has some of the experts whole, or their
// columns, to which the others send their tokens (parallel::ExpertExchange). An MLP beside the experts, which all
// tokens go through where they are (shared experts: Dai et al. 2024, "DeepSeekMoE"), adds what it gives.

#include <functional>
#include <string>
#include <vector>

#include "sft/model/layer_plan.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

class UnitBuilder;
struct ExpertDecisions;
struct ExpertTensors;

/// LoRA of a product of all experts of a rank: y += scale b[e] a[e] x of the rows of expert e.
struct ExpertAdapter {
  parallel::ParameterGroup a;  ///< (E, R, K); exists() or not
  parallel::ParameterGroup b;  ///< (E, N, R)
  float scale = 1.0F;

  [[nodiscard]] bool exists() const { return a.exists(); }
};

/// A product of all experts of a rank, E of them; their matrices lie one behind the other.
struct ExpertLinear {
  parallel::ParameterGroup weight;  ///< (E, N, K), or (E, K, N) in experts of gpt-oss
  parallel::ParameterGroup bias;    ///< (E, N); exists() or not
  ExpertAdapter adapter = {};
};

/// The parameters of the experts of a layer. A rank has those of its own experts, and the whole router.
struct ExpertParameters {
  parallel::ParameterGroup router, router_bias;  ///< (E, C), (E)
  ExpertLinear gate_up;  ///< 2F of C: of each expert gate, then up; with config::ExpertForm::gpt_oss the two in turn
  ExpertLinear down;     ///< C of F; its bias is whole on every rank of tp
  /// (E) float32, added to the scores for the choice alone; exists() or not.
  parallel::ParameterGroup correction = {};
};

/// Its linear layers are those of the MLP beside the experts, which have adapters of their own kind.
class ExpertMlp final : public Sublayer {
 public:
  /// `path`: of its module, "model.layers.0.mlp".
  ExpertMlp(UnitBuilder& unit, const config::Model& model, const LayerPlan& plan, const std::string& path);

  [[nodiscard]] std::vector<SublayerTensor> tensors(const Sizes& sizes, const ActivationPolicy& policy) const override;
  [[nodiscard]] std::int64_t pass_tokens(const Sizes& sizes, const ActivationPolicy& policy) const override;
  void fit_shapes(const Sizes& sizes, ops::Shapes& shapes) const override;
  void fit_fp8(const Sizes& sizes, const ActivationPolicy& policy, Fp8Buffers& buffers) const override;
  /// Waits for the device once: products of experts take their sizes from the host. Both passes are collective over ep.
  void forward(const Context& context, SublayerTensors& own, BlockScratch& scratch) const override;
  /// Throws std::logic_error with `gives_delta`; else backward() computes again what it needs.
  void recompute(const Context& context, const ActivationPolicy& policy, SublayerTensors& own, BlockScratch& scratch,
                 const std::function<void()>& read_normed, bool gives_delta) const override;
  void backward(const Context& context, SublayerTensors& own, BlockScratch& scratch,
                const std::function<void()>& start_normed) const override;
  [[nodiscard]] double matmul_weights() const override;

 private:
  [[nodiscard]] bool has_shared() const { return !linears_.empty(); }
  void compute(const Context& context, SublayerTensors& own, BlockScratch& scratch) const;
  void differentiate(const Context& context, SublayerTensors& own, BlockScratch& scratch,
                     const std::function<void()>& start_normed) const;
  /// scratch.dnormed += the gradient through the choices' weights; nothing where there is padding.
  void differentiate_router(const Context& context, const ExpertDecisions& decisions, const ExpertTensors& own,
                            const BlockScratch& scratch) const;

  ExpertParameters p_;
  std::int64_t layer_;  ///< its number among the layers with experts
  bool is_gpt_oss_;
  double weights_of_token_;  ///< of the router, and of the experts of a token
};

}  // namespace sft::model
