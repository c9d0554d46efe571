// SPDX-License-Identifier: Apache-2.0
#include "ops/views/update.hpp"

#include <variant>

#include "ops/views/tensor.hpp"
#include "sft/core/block_codes.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops {

static_assert(block_elements == dynamic_block_size);

UpdateFactors factors_of(const Update& step) {
  SFT_ENSURE(step.gradients.dtype == DType::float32, "ops: float32 expected");
  SFT_ENSURE(step.copy.empty() || step.parameters.dtype == DType::float32, "bf16 parameters have no copy");
  SFT_ENSURE(step.state[1].empty() || step.state[0].dtype == step.state[1].dtype, "state has one dtype");
  const StochasticRounding& rounding = step.rounding;
  return {.rule = std::visit([](const auto& rule) { return StepOfAnyRule::of(rule); }, step.rule),
          .gradient_scale = static_cast<float>(step.gradient_scale),
          .key = rounding.key | 1U,
          .first_index = rounding.first_index,
          .num_columns = rounding.num_columns,
          .row_stride = rounding.row_stride,
          .begin = rounding.begin};
}

BlockFactors block_factors_of(const BlockwiseUpdate& step) {
  SFT_ENSURE(std::holds_alternative<AdamW>(step.update.rule), "blockwise state is AdamW's");
  BlockFactors factors{.is_cut = !step.new_scales[0].empty(), .first_block = step.first_block};
  const std::int64_t size = step.update.gradients.num_elements();
  for (std::size_t i = 0; i < step.scales.size(); ++i) {
    const Tensor& codes = step.update.state[i];
    SFT_ENSURE(codes.dtype == DType::uint8 && codes.num_elements() == size, "an element has a code");
    SFT_ENSURE(codes.is_contiguous(), "ops: contiguous tensor expected");
    SFT_ENSURE(factors.is_cut || step.scales[i].num_elements() == (size + block_elements - 1) / block_elements,
               "a block has a scale");
    factors.old_scales[i] = floats_of(step.scales[i]);
    factors.new_scales[i] = floats_of(factors.is_cut ? step.new_scales[i] : step.scales[i]);
  }
  return factors;
}

}  // namespace sft::ops
