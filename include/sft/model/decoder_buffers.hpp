// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a decoder: what the forward pass keeps for the backward pass, and what all blocks share. Pure: planning
// lays it out without a device.

#include <vector>

#include "sft/device/arena.hpp"
#include "sft/model/adapter_buffers.hpp"
#include "sft/model/block.hpp"
#include "sft/model/loss_head.hpp"

namespace sft::model {

class DecoderBuffers {
 public:
  /// For a rank of `sizes` that computes on a device of `kind`.
  DecoderBuffers(const config::Model& config, const config::Lora& lora, const Sizes& sizes, device::Kind kind);

  /// Takes everything, for Sizes::tokens; call with sizing arenas, then with real ones.
  void lay_out(device::Arena& activations, device::Arena& workspace);
  /// Makes all tensors below views of the first T = `num_tokens` rows of what was laid out, for the passes that follow.
  void set_tokens(std::int64_t num_tokens);

  std::vector<BlockActivations> blocks;
  BlockScratch scratch;
  Tensor last;                 ///< (T, C) residual stream after the last block
  Tensor last_rstd;            ///< (T) float32
  Tensor inverse_frequencies;  ///< (D/2) float64
  LossHead loss_head;
  AdapterBuffers adapters;

 private:
  Sizes sizes_;
  bool qk_norm_;
  // As they were laid out, for the most tokens.
  std::vector<BlockActivations> all_blocks_;
  BlockScratch all_scratch_;
  Tensor all_last_, all_last_rstd_;
};

}  // namespace sft::model
