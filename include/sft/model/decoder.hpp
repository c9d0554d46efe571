// SPDX-License-Identifier: Apache-2.0
#pragma once
// One decoder, forward and backward, over any mesh: this rank's slice of heads, columns, vocabulary and sequence.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "sft/model/context.hpp"
#include "sft/model/decoder_buffers.hpp"
#include "sft/sequence/attention_schedule.hpp"
#include "sft/transfer/mover.hpp"

namespace sft::model {

/// What gradients are scaled by.
struct GradientScale {
  double loss = 1.0;      ///< that of sum(w nll) of the tokens
  double aux_loss = 0.0;  ///< that of the auxiliary loss of all ranks' micro-batches (RouterBalance)
};

/// All passes are collective over the sp, tp and fsdp groups, and in the last micro-batch of a step over those that
/// ShardedUnits::enter names.
class Decoder {
 public:
  /// Everything in the context, `parameters`, `buffers` and `mover` outlive it; the buffers are laid out. `mover` has a
  /// place of DecoderBuffers::offloaded_bytes() and a lane for each of num_offloaded() blocks, whose activations wait
  /// there for the backward pass while two blocks work in turn (as in Rhu et al. 2016); without such blocks it is not
  /// needed.
  Decoder(const Context& context, const DecoderParameters& parameters, DecoderBuffers& buffers,
          transfer::Mover* mover = nullptr);

  /// Uploads the rotary frequencies; once, before the first pass.
  void initialize();

  /// Gradients of sum(w nll) of one micro-batch, times `scale`, added up in the sharded units; metrics, float64
  /// (Metric::count), += the sums over this rank's tokens. `noise` is that of the embeddings.
  /// With experts collective over the world, of which each rank has a micro-batch.
  void forward_backward(const Inputs& inputs, const sequence::AttentionSchedules& schedules, const GradientScale& scale,
                        Tensor metrics, std::span<const EmbeddingNoise> noise = {});

  /// Metrics of one micro-batch, added up as above. No gradient: neither is one written nor the last step's touched,
  /// and nothing is kept for a backward pass. Collective over the sp, tp and fsdp groups.
  void forward_loss(const Inputs& inputs, const sequence::AttentionSchedules& schedules, Tensor metrics);

  /// Calls visit(magnitude, norms) for each adapter with a magnitude: `norms`, float32 (N), valid during the call, are
  /// those of its weight's rows (Backend's stream), which this rank's slice of the magnitude begins with. Collective
  /// over the tp and fsdp groups.
  void for_each_weight_norm(
      const std::function<void(const parallel::ParameterGroup& magnitude, const Tensor& norms)>& visit);

  /// Logits, float32 (count, V), of this rank's tokens [begin, begin + count). No gradient.
  void forward_logits(const Inputs& inputs, const sequence::AttentionSchedules& schedules, std::int64_t begin,
                      std::int64_t count, Tensor logits);

 private:
  /// work(), as a range of the timeline.
  template <class Work>
  void timed(const device::RangeLabel& label, const Work& work);

  void embed(const Inputs& inputs, std::span<const EmbeddingNoise> noise);
  /// Embedding, blocks and final norm, in a pass that was begun; scratch.normed holds the result, of all T tokens, and
  /// the head is entered. `keeps`: a backward pass follows.
  void forward_body(const Inputs& inputs, const sequence::AttentionSchedules& schedules, bool keeps,
                    std::span<const EmbeddingNoise> noise = {});
  void head_backward(const Inputs& inputs, double gradient_scale, Tensor metrics);
  /// Adds scratch.dx, of all tokens, to the gradient of the embedding: of all rows but that of the padding token.
  void embedding_backward(const Tensor& tokens);
  void block_backward_of(BlockIndex block);

  /// What the block keeps, and where it waits.
  [[nodiscard]] std::vector<transfer::Move> moves_of(BlockIndex block) const;
  // Nothing unless the block is offloaded.
  void save(BlockIndex block);
  void load(BlockIndex block);
  /// Makes later ops wait for the copies of the block.
  void wait_for(BlockIndex block);

  Context c_;
  const DecoderParameters& p_;
  DecoderBuffers& b_;
  transfer::Mover* mover_;
};

}  // namespace sft::model
