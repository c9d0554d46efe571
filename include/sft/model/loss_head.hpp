#pragma once
// The head and its loss in one pass over chunks of tokens: logits of a chunk, vocabulary-parallel cross-entropy
// (Shoeybi et al. 2019), and its gradient, so that the full logits never exist (as in Liger, Hsu et al. 2024). The
// loss's denominator is known beforehand, hence the backward pass needs no second product.

#include "sft/device/arena.hpp"
#include "sft/model/context.hpp"

namespace sft::model {

class LossHead {
 public:
  explicit LossHead(const Context& context) : c_(context) {}

  void lay_out(device::Arena& arena);

  /// normed (T, C) after the final norm; weight (V, C) this rank's rows of the head. Writes dweight and dnormed (T, C),
  /// partial dtype, already summed over tp; adds to metrics (see Backend::cross_entropy_finish). Every token's gradient
  /// is scaled by gradient_scale.
  void forward_backward(const Tensor& normed, const Tensor& weight, const Inputs& inputs, float gradient_scale,
                        const parallel::GradientTarget& dweight, Tensor dnormed, Tensor metrics);

 private:
  Context c_;
  std::int64_t chunk_tokens_ = 0;
  Tensor logits_, dlogits_;  ///< (chunk, V) float32; compute dtype (the same memory when float32)
  Tensor max_, partials_;    ///< (chunk); (3, chunk)
};

}  // namespace sft::model
