// SPDX-License-Identifier: Apache-2.0
#include "sft/model/linear/adapter_buffers.hpp"

#include <algorithm>

#include "sft/model/sublayer.hpp"

namespace sft::model {

AdapterBuffers::AdapterBuffers(const config::Lora& lora, const DecoderParameters& parameters, const Sizes& sizes,
                               const ActivationPolicy& policy)
    : tokens_(sizes.tokens),
      compute_(sizes.compute),
      rank_(lora.use_peft && !lora.lora_target_modules.empty() ? lora.max_rank() : 0),
      dropout_(static_cast<float>(lora.lora_dropout)),
      has_magnitudes_(lora.use_peft && lora.use_dora) {
  for (const BlockParameters& block : parameters.blocks) {
    for (const BlockSublayer& sublayer : block.sublayers) {
      const std::int64_t num_tokens = sublayer.layer->pass_tokens(sizes, policy);
      for (const Linear& layer : sublayer.layer->linear_layers()) {
        auto adapter = layer.adapters.begin();
        for (int member = 0; member < static_cast<int>(layer.members.size()); ++member) {
          const Shape& shape = layer.members[static_cast<std::size_t>(member)].shape;
          const std::int64_t rows = shape.local_rows(sizes.tp_size), columns = shape.local_columns(sizes.tp_size);
          most_rows_ = std::max(most_rows_, rows);
          most_elements_ = std::max(most_elements_, num_tokens * std::max(rows, columns));
          if (adapter != layer.adapters.end() && adapter->member == member) {
            first_factors_[adapter->number] = num_factors_;
            ++adapter;
          }
          num_factors_ += rows;
        }
      }
    }
  }
}

void AdapterBuffers::lay_out(device::Arena& workspace, device::Arena& tp_sums) {
  if (rank_ == 0) return;
  low_ = take(workspace, compute_, {tokens_ * rank_});
  low_grad_ = take(workspace, compute_, {tokens_ * rank_});
  if (dropout_ != 0.0F) input_ = take(workspace, compute_, {most_elements_});
  if (!has_magnitudes_) return;
  output_ = take(workspace, compute_, {most_elements_});
  row_products_ = take(workspace, DType::float32, {most_rows_ * rank_});
  gram_ = take(workspace, compute_, {rank_ * rank_});
  squares_ = take(tp_sums, DType::float32, {most_rows_});
  factors_ = take(workspace, DType::float32, {num_factors_});
  inverse_norms_ = take(workspace, DType::float32, {num_factors_});
}

Tensor AdapterBuffers::factors(const Adapter& adapter, std::int64_t rows) const {
  return factors_.rows(first_factors_.at(adapter.number), rows);
}

Tensor AdapterBuffers::inverse_norms(const Adapter& adapter, std::int64_t rows) const {
  return inverse_norms_.rows(first_factors_.at(adapter.number), rows);
}

}  // namespace sft::model
