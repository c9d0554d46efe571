// SPDX-License-Identifier: Apache-2.0
#pragma once
// A decoder that reads a text piece by piece: all layers keep what they need of it, such as keys and values, so that a
// further token costs the work of one token. Forward only, on one rank. For generation.

#include <cstdint>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/model/block.hpp"
#include "sft/model/context.hpp"
#include "sft/model/layers/cached_attention.hpp"

namespace sft::model {

/// The memory of a CachedDecoder. Pure: planning lays it out without a device.
class CachedDecoderBuffers {
 public:
  /// `sizes.tokens` is the most tokens of one pass, `max_tokens` (L) of a text.
  CachedDecoderBuffers(const config::Model& config, const DecoderParameters& parameters, const Sizes& sizes,
                       std::int64_t max_tokens);

  /// Takes everything; call with sizing arenas, then with real ones.
  void lay_out(device::Arena& cache, device::Arena& workspace);
  /// What attention over the cache needs of the ops' workspace.
  [[nodiscard]] ops::AttentionNeeds attention_needs() const { return {.num_kinds = windows.size()}; }

  /// Whether what layers keep of a text is what they would keep of its beginning, but for rows of later tokens.
  [[nodiscard]] bool can_cut_text() const;

  IndexedVector<BlockIndex, BlockTextState> text;
  sequence::AttentionWindows windows;  ///< of the layers' kinds of attention
  /// Memory of the block at work, the same for all; two streams serve all sublayers in turn.
  AllBlockBuffers blocks;
  BlockScratch scratch;
  Tensor last_rstd;  ///< (1) float32, of the final norm: that of the last token alone

 private:
  Sizes sizes_;
  config::Model config_;
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
