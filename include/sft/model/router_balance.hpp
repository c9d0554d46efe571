// SPDX-License-Identifier: Apache-2.0
#pragma once
// How evenly the tokens of a micro-batch are spread over experts, and the auxiliary loss that asks for it (Fedus et al.
// 2021, "Switch Transformers"), as load_balancing_loss_func of transformers has it:
//
//   E x the sum over experts of (choices of it / M) x (sum of the softmax probabilities of it / M)
//
// over all layers with experts; M is tokens x these layers. Tokens are those of all ranks in the micro-batch of each,
// so that the mesh does not change it; padding counts nowhere.

#include <cstdint>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/model/context.hpp"

namespace sft::model {

class RouterBalance {
 public:
  explicit RouterBalance(const config::Model& model);

  /// Takes nothing without experts; call with a sizing arena, then with a real one.
  void lay_out(device::Arena& workspace);

  /// Begins a pass, whose layers count where it is one with a gradient.
  void begin(const Context& context, bool counts);
  [[nodiscard]] bool counts() const { return counts_; }
  /// Sums of this rank, float64: choices (E) in layer number `layer` among those with experts, and probabilities (E).
  [[nodiscard]] Tensor choices(std::int64_t layer) const;
  [[nodiscard]] Tensor probabilities() const;

  /// Adds up the sums of all ranks, once behind the forward pass of every rank. The gradient is that of `scale` times
  /// the auxiliary loss. Waits for the device. Collective over the world.
  void share(const Context& context, double scale);
  /// For ops::RouterSumsBackward of any layer: (E) float64, and the factor; 0: there is no gradient.
  [[nodiscard]] Tensor all_choices() const { return all_choices_; }
  [[nodiscard]] double factor() const { return factor_; }

  // What share() found.
  [[nodiscard]] double aux_loss() const { return aux_loss_; }
  /// Choices of each expert, layer after layer, of all ranks.
  [[nodiscard]] std::vector<double> choices_by_layer() const;

 private:
  std::int64_t num_experts_, num_choices_, num_layers_;
  bool counts_ = false;
  Tensor sums_;         ///< (layers + 1, E) float64: choices by layer, then probabilities
  Tensor all_choices_;  ///< (E) float64
  std::vector<double> on_host_;
  std::vector<double> totals_;  ///< of choices, (E)
  double factor_ = 0.0, aux_loss_ = 0.0;
};

/// Choices of the expert that most tokens went to, by those of the mean expert, in the layer where that is largest; of
/// choices_by_layer(). 0 where nothing was chosen.
[[nodiscard]] double expert_imbalance(const std::vector<double>& choices_by_layer, std::int64_t num_experts);

}  // namespace sft::model
