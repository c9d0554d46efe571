// SPDX-License-Identifier: Apache-2.0
#include "sft/model/adapter_buffers.hpp"

#include <algorithm>

namespace sft::model {

AdapterBuffers::AdapterBuffers(const config::Lora& lora, const ops::Shapes& shapes)
    : shapes_(shapes),
      num_tokens_(shapes.tokens),
      rank_(lora.use_peft ? lora.lora_r : 0),
      scale_(static_cast<float>(lora.scale())),
      dropout_(static_cast<float>(lora.lora_dropout)) {}

void AdapterBuffers::lay_out(device::Arena& workspace) {
  if (rank_ == 0) return;
  low_ = take(workspace, shapes_.compute, {shapes_.tokens, rank_});
  low_grad_ = take(workspace, shapes_.compute, {shapes_.tokens, rank_});
  if (dropout_ == 0.0F) return;
  const std::int64_t columns = std::max({shapes_.hidden, shapes_.q_heads * shapes_.head_dim, shapes_.mlp});
  input_ = take(workspace, shapes_.compute, {shapes_.tokens * columns});
}

Tensor AdapterBuffers::input(std::int64_t columns) const {
  return input_.rows(0, num_tokens_ * columns).view({num_tokens_, columns});
}

}  // namespace sft::model
