// SPDX-License-Identifier: Apache-2.0
#pragma once
// The MLP of a layer with experts (Shazeer et al. 2017): a router sends each token through k of them, none is dropped,
// and what they give is added up with the router's weights. Padding goes through none. Over tp every expert is cut by
// columns, as a dense MLP is, and all ranks route alike.

#include <functional>

#include "sft/model/architecture.hpp"
#include "sft/model/block_buffers.hpp"
#include "sft/model/mlp.hpp"

namespace sft::model {

/// The parameters of the experts of a layer; the matrices of all lie one behind the other.
struct ExpertParameters {
  parallel::ParameterGroup router;   ///< (E, C)
  parallel::ParameterGroup gate_up;  ///< (E, 2F, C): of each expert gate, then up
  parallel::ParameterGroup down;     ///< (E, C, F)
};

class ExpertMlp final : public Mlp {
 public:
  /// `layer`: its number among the layers with experts.
  ExpertMlp(const ExpertParameters& parameters, std::int64_t layer) : p_(parameters), layer_(layer) {}

  /// Waits for the device once: products of experts take their sizes from the host.
  void forward(const Context& context, MlpActivations& saved, BlockScratch& scratch) const override;
  void backward(const Context& context, MlpActivations& saved, BlockScratch& scratch,
                const std::function<void()>& start_normed) const override;

 private:
  ExpertParameters p_;
  std::int64_t layer_;
};

}  // namespace sft::model
