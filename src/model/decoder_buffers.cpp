// SPDX-License-Identifier: Apache-2.0
#include "sft/model/decoder_buffers.hpp"

namespace sft::model {

DecoderBuffers::DecoderBuffers(const config::Model& config, const config::Lora& lora, const Sizes& sizes,
                               device::Kind kind)
    : blocks(static_cast<std::size_t>(config.num_hidden_layers)),
      loss_head(sizes, kind),
      adapters(lora, sizes.shapes()),
      sizes_(sizes),
      qk_norm_(config.qk_norm) {}

void DecoderBuffers::lay_out(device::Arena& activations, device::Arena& workspace) {
  for (BlockActivations& block : blocks) block = take_activations(activations, sizes_, qk_norm_);
  last = take(activations, sizes_.compute, {sizes_.tokens, sizes_.hidden});
  last_rstd = take(activations, DType::float32, {sizes_.tokens});
  scratch = take_scratch(workspace, sizes_);
  inverse_frequencies = take(workspace, DType::float64, {sizes_.head_dim / 2});
  loss_head.lay_out(workspace);
  adapters.lay_out(workspace);
}

}  // namespace sft::model
