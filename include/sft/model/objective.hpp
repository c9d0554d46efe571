// SPDX-License-Identifier: Apache-2.0
#pragma once
// The objective of a run: what is minimized is a sum over tokens, each with a weight, of a loss that follows from the
// token's logits by a vocabulary-parallel cross-entropy (Shoeybi et al. 2019). LossHead makes the logits, a chunk of
// tokens at a time, and takes their gradients on.

#include <cstddef>
#include <cstdint>

#include "sft/device/arena.hpp"
#include "sft/model/context.hpp"

namespace sft::model {

/// The places of the sums that an objective adds up, float64 (count), over tokens with a weight above 0.
struct Metric {
  static constexpr std::size_t weighted_loss = 0;
  static constexpr std::size_t num_targets = 1;
  static constexpr std::size_t num_right = 2;  ///< tokens whose target has the largest logit
  static constexpr std::size_t entropy = 3;    ///< of the predictions, in nats
  static constexpr std::int64_t count = 4;
};

/// Some tokens of a micro-batch and their logits.
struct LossChunk {
  std::int64_t begin;  ///< the first token
  Tensor logits;       ///< (n, V) float32, this rank's columns; an objective writes over them
  float logit_cap;     ///< of ops::SoftCap, by which they came; 0: there was none
};

class Objective {
 public:
  /// The plain one: -log(p) of a token's target.
  Objective() = default;
  /// The one that [train] names.
  explicit Objective(const config::Config& config);

  /// Takes what a chunk of at most `chunk_tokens` tokens needs of what is summed over tp; call with sizing arenas, then
  /// with real ones. Pure.
  void lay_out(device::Arena& tp_sums, std::int64_t chunk_tokens);

  /// The sums over the vocabulary that losses of the chunk follow from; one chunk at a time, backward() follows.
  /// Collective over the tp group.
  void forward(const Context& context, const LossChunk& chunk, const Inputs& inputs) const;
  /// The weights (T) float32 that losses and gradients of the tokens are multiplied with: between forward() and
  /// backward(), once a micro-batch.
  [[nodiscard]] ConstTensor weights(const Inputs& inputs) const { return inputs.loss_weights; }
  /// dlogits (n, V), compute dtype, = gradient_scale times the gradient of the chunk's weighted loss; it may be the
  /// logits, or empty: not wanted. metrics (Metric::count) += the sums of this rank's tokens.
  void backward(const Context& context, const LossChunk& chunk, const Inputs& inputs, const ConstTensor& weights,
                Tensor dlogits, double gradient_scale, Tensor metrics) const;

 private:
  [[nodiscard]] ops::CrossEntropy cross_entropy(const Context& context, const LossChunk& chunk, const Inputs& inputs,
                                                const ConstTensor& weights) const;

  ops::TokenLoss loss_;
  Tensor max_, partials_;  ///< (chunk); (3 or 4, chunk)
};

}  // namespace sft::model
