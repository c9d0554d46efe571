#pragma once
// One decoder, forward and backward, over any mesh: this rank's slice of heads, columns, vocabulary and sequence.

#include <memory>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/model/block.hpp"
#include "sft/model/context.hpp"
#include "sft/model/loss_head.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::model {

/// All passes are collective over the model and fsdp groups. Everything in the context outlives it.
class Decoder {
 public:
  struct Arenas {
    device::Arena activations, workspace;
  };

  explicit Decoder(const Context& context, bool reshard_after_forward);

  /// Takes all activations and scratch; call with sizing arenas, then with real ones.
  void lay_out(Arenas& arenas);
  /// Uploads the rotary frequencies; call once after the real lay_out.
  void initialize();

  /// Gradients of gradient_scale * sum(w nll) of one micro-batch, added up in the sharded units; metrics, float64 (4),
  /// += the sums of Backend::cross_entropy_finish over this rank's tokens.
  void forward_backward(const Inputs& inputs, const sequence::AttentionSchedule& schedule, float gradient_scale,
                        Tensor metrics);

  /// Logits, float32 (count, V), of this rank's tokens [begin, begin + count). No gradient.
  void forward_logits(const Inputs& inputs, const sequence::AttentionSchedule& schedule, std::int64_t begin,
                      std::int64_t count, Tensor logits);

 private:
  [[nodiscard]] int head_unit() const { return static_cast<int>(blocks_.size()) + 1; }
  /// Unit whose table the head multiplies with, and its place in it.
  [[nodiscard]] int head_weight_unit() const { return c_.config.tie_word_embeddings ? 0 : head_unit(); }
  [[nodiscard]] int head_weight() const { return c_.config.tie_word_embeddings ? 0 : head_weight_index; }

  void embed(const Inputs& inputs);
  /// Embedding, blocks and final norm; scratch_.normed holds the result and the head's units are in use.
  void forward_body(const Inputs& inputs, const sequence::AttentionSchedule& schedule);
  void head_backward(const Inputs& inputs, float gradient_scale, Tensor metrics);

  Context c_;
  bool reshard_after_forward_;
  LossHead loss_head_;
  std::vector<BlockActivations> blocks_;
  BlockScratch scratch_;
  Tensor final_, final_rstd_;   ///< (T, C) residual stream after the last block; (T)
  Tensor inverse_frequencies_;  ///< (D/2) float64
};

}  // namespace sft::model
