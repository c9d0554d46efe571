// SPDX-License-Identifier: Apache-2.0
#pragma once
// A decoder that reads a text piece by piece: the keys and values of all layers stay in a cache, so that a further
// token costs the work of one token. Forward only, on one rank. For generation.

#include <cstdint>
#include <memory>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/model/block.hpp"
#include "sft/model/context.hpp"
#include "sft/parallel/sequence_attention.hpp"

namespace sft::model {

/// Rotated keys, and values, of the attention layer of one block: (L, K, D) each, compute dtype; L is the most tokens
/// of a text.
struct LayerCache {
  Tensor keys, values;
};

/// The memory of a CachedDecoder. Pure: planning lays it out without a device.
class CachedDecoderBuffers {
 public:
  /// `sizes.tokens` is the most tokens of one pass, `max_tokens` (L) of a text.
  CachedDecoderBuffers(const config::Model& config, const Sizes& sizes, std::int64_t max_tokens);

  /// Takes everything; call with sizing arenas, then with real ones.
  void lay_out(device::Arena& cache, device::Arena& workspace);
  /// What attention over the cache needs of the ops' workspace.
  [[nodiscard]] ops::AttentionNeeds attention_needs() const { return {.num_kinds = windows.size()}; }

  IndexedVector<BlockIndex, LayerCache> layers;
  sequence::AttentionWindows windows;  ///< of the layers' kinds of attention
  /// What the block at work has, all in the same memory; the residual stream of one is that of the next.
  IndexedVector<BlockIndex, BlockActivations> activations;
  BlockScratch scratch;
  Tensor last_rstd;  ///< (1) float32, of the final norm: that of the last token alone

 private:
  Sizes sizes_;
  config::Model config_;
  std::int64_t max_tokens_;
};

/// Attention of new tokens to a cached text and to each other. Knows the layers by their order: in every pass each
/// calls forward() once.
class CachedAttention final : public parallel::SequenceAttention {
 public:
  /// All references outlive it.
  CachedAttention(const IndexedVector<BlockIndex, LayerCache>& layers, float scale, float softcap,
                  const sequence::AttentionWindows& windows, ops::Backend& backend);

  /// Prepares the pass that follows, over `num_new` tokens behind `num_cached`.
  void begin_pass(std::int64_t num_cached, std::int64_t num_new);
  /// One round, whose spans reach from the new tokens to all tokens of the text. begin_pass() calls it.
  void set_schedules(const sequence::AttentionSchedules& schedules) override;
  /// Puts the keys and values into the cache, then attends to all that is in it.
  void forward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse) override;
  /// Throws std::logic_error: a cache has no gradient.
  void backward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse, Tensor dout,
                const Heads& gradients) override;

 private:
  const IndexedVector<BlockIndex, LayerCache>& layers_;
  float scale_, softcap_;
  const sequence::AttentionWindows& windows_;
  ops::Backend& backend_;
  IndexedVector<sequence::AttentionKind, std::unique_ptr<ops::AttentionPlan>> plans_;
  std::int64_t num_cached_ = 0, num_new_ = 0;
  BlockIndex next_layer_;
};

class CachedDecoder {
 public:
  /// `context.attention` is `attention`. Everything in the context, `attention`, `parameters` and `buffers` outlive it;
  /// the buffers are laid out.
  CachedDecoder(const Context& context, CachedAttention& attention, const DecoderParameters& parameters,
                CachedDecoderBuffers& buffers);

  /// Uploads the rotary frequencies; once, before the first pass.
  void initialize();

  /// Reads T tokens, at least one and at most Sizes::tokens of the context, behind the `num_cached` that the cache
  /// holds: tokens and positions (T) int32. logits (V) float32, or empty: of what follows the last of them.
  void forward(const Tensor& tokens, const Tensor& positions, std::int64_t num_cached, const Tensor& logits);

 private:
  Context c_;
  CachedAttention& attention_;
  const DecoderParameters& p_;
  CachedDecoderBuffers& b_;
};

}  // namespace sft::model
