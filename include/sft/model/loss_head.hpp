// SPDX-License-Identifier: Apache-2.0
#pragma once
// The head and its loss in one pass over chunks of tokens: logits of a chunk, its Objective and their gradient, so that
// the full logits never exist (as in Liger, Hsu et al. 2024). The weights of tokens, and the loss's denominator, are
// known beforehand, hence the backward pass needs no second product of the logits.

#include "sft/device/arena.hpp"
#include "sft/model/architecture.hpp"
#include "sft/model/context.hpp"
#include "sft/model/objective.hpp"

namespace sft::model {

/// logits (T, V) float32 of normed (T, C) after the final norm, divided by logits_scaling, then capped; `head` (V, C)
/// is in use.
void head_logits(const Context& context, const Linear& head, Tensor logits, const Tensor& normed);

class LossHead {
 public:
  /// For a rank of `sizes` that computes on a device of `kind`, which chooses the length of a chunk.
  LossHead(const Sizes& sizes, device::Kind kind, const Objective& objective = {});

  /// Takes a chunk's buffers, those that are summed over tp from `tp_sums`; call with sizing arenas, then with real
  /// ones. Pure.
  void lay_out(device::Arena& arena, device::Arena& tp_sums);
  [[nodiscard]] std::int64_t chunk_tokens() const { return chunk_tokens_; }

  /// normed (T, C) after the final norm; `head` (V, C), in use, this rank's rows. Writes the head's gradient and
  /// dnormed (T, C), partial dtype, whose TensorParallel::slice is already summed over tp, and which may be normed
  /// where Sizes::shares_branches; adds to metrics (see Metric). Every token's gradient is
  /// scaled by gradient_scale. Collective over the tp group.
  void forward_backward(const Context& context, const Linear& head, const Tensor& normed, const Inputs& inputs,
                        double gradient_scale, Tensor dnormed, Tensor metrics);
  /// The loss without a gradient: adds to metrics alone. Arguments as in forward_backward.
  void forward(const Context& context, const Linear& head, const Tensor& normed, const Inputs& inputs, Tensor metrics);

 private:
  /// Calls work(chunk) for the chunks, in order, each after Objective::forward().
  template <class Work>
  void for_each_chunk(const Context& context, const Linear& head, const Tensor& normed, const Inputs& inputs,
                      const Work& work) const;

  Sizes sizes_;
  std::int64_t chunk_tokens_;
  Objective objective_;
  Tensor logits_, dlogits_;  ///< (chunk, V) float32; compute dtype (the same memory when float32)
};

}  // namespace sft::model
