// SPDX-License-Identifier: Apache-2.0
#include "sft/model/adapter_buffers.hpp"

#include <algorithm>

namespace sft::model {

AdapterBuffers::AdapterBuffers(const config::Lora& lora, const ops::Shapes& shapes, std::int64_t mlp_tile_tokens)
    : shapes_(shapes),
      mlp_tile_tokens_(std::min(mlp_tile_tokens, shapes.tokens)),
      rank_(lora.use_peft ? lora.lora_r : 0),
      scale_(static_cast<float>(lora.scale())),
      dropout_(static_cast<float>(lora.lora_dropout)) {}

void AdapterBuffers::lay_out(device::Arena& workspace) {
  if (rank_ == 0) return;
  low_ = take(workspace, shapes_.compute, {shapes_.tokens, rank_});
  low_grad_ = take(workspace, shapes_.compute, {shapes_.tokens, rank_});
  if (dropout_ == 0.0F) return;
  const std::int64_t attention_elements = shapes_.tokens * std::max(shapes_.hidden, shapes_.q_heads * shapes_.head_dim);
  const std::int64_t mlp_elements = mlp_tile_tokens_ * std::max(shapes_.hidden, shapes_.mlp);
  input_ = take(workspace, shapes_.compute, {std::max(attention_elements, mlp_elements)});
}

Tensor AdapterBuffers::input(std::int64_t num_tokens, std::int64_t columns) const {
  return input_.rows(0, num_tokens * columns).view({num_tokens, columns});
}

}  // namespace sft::model
