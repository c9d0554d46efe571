// SPDX-License-Identifier: Apache-2.0
#pragma once
// The MLP of a layer with experts (Shazeer et al. 2017): a router sends each token through k of them, none is dropped,
// and what they give is added up with the router's weights. Padding goes through none. Over tp every expert is cut by
// columns, as a dense MLP is, and all ranks route alike. Over ep each rank has some of the experts whole, or their
// columns, to which the others send their tokens (parallel::ExpertExchange). An MLP beside the experts, which all
// tokens go through where they are (shared experts: Dai et al. 2024, "DeepSeekMoE"), adds what it gives.

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "sft/model/architecture.hpp"
#include "sft/model/block_buffers.hpp"
#include "sft/model/layers/dense_mlp.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

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

class ExpertMlp final : public Mlp {
 public:
  /// `layer`: its number among the layers with experts. `shared`: the MLP beside them, of Sizes::shared_mlp columns.
  ExpertMlp(const ExpertParameters& parameters, std::int64_t layer, std::optional<DenseMlp> shared = std::nullopt)
      : p_(parameters), layer_(layer), shared_(std::move(shared)) {}

  /// Waits for the device once: products of experts take their sizes from the host. Both passes are collective over ep.
  void forward(const Context& context, MlpActivations& saved, BlockScratch& scratch) const override;
  void backward(const Context& context, MlpActivations& saved, BlockScratch& scratch,
                const std::function<void()>& start_normed) const override;

  /// Of the MLP beside the experts: these have adapters of their own kind.
  [[nodiscard]] std::vector<const Linear*> linear_layers() const override {
    return shared_ ? shared_->linear_layers() : std::vector<const Linear*>{};
  }

 private:
  /// scratch.dnormed += the gradient through the choices' weights; nothing where there is padding.
  void differentiate_router(const Context& context, const ExpertActivations& activations, const BlockScratch& scratch,
                            const Tensor& dweights) const;

  ExpertParameters p_;
  std::int64_t layer_;
  std::optional<DenseMlp> shared_;
};

}  // namespace sft::model
