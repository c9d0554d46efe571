// SPDX-License-Identifier: Apache-2.0
#include "sft/model/decoder_buffers.hpp"

namespace sft::model {

DecoderBuffers::DecoderBuffers(const config::Model& config, const config::Lora& lora, const Sizes& sizes,
                               device::Kind kind)
    : loss_head(sizes, kind),
      adapters(lora, sizes.shapes()),
      sizes_(sizes),
      qk_norm_(config.qk_norm),
      all_blocks_(static_cast<std::size_t>(config.num_hidden_layers)) {}

void DecoderBuffers::lay_out(device::Arena& activations, device::Arena& workspace) {
  for (BlockActivations& block : all_blocks_) block = take_activations(activations, sizes_, qk_norm_);
  all_last_ = take(activations, sizes_.compute, {sizes_.tokens, sizes_.hidden});
  all_last_rstd_ = take(activations, DType::float32, {sizes_.tokens});
  all_scratch_ = take_scratch(workspace, sizes_);
  inverse_frequencies = take(workspace, DType::float64, {sizes_.head_dim / 2});
  loss_head.lay_out(workspace);
  adapters.lay_out(workspace);
  set_tokens(sizes_.tokens);
}

void DecoderBuffers::set_tokens(std::int64_t num_tokens) {
  blocks.clear();
  for (const BlockActivations& block : all_blocks_) blocks.push_back(first_rows(block, num_tokens));
  scratch = first_rows(all_scratch_, num_tokens);
  last = all_last_.rows(0, num_tokens);
  last_rstd = all_last_rstd_.rows(0, num_tokens);
  adapters.set_tokens(num_tokens);
}

}  // namespace sft::model
