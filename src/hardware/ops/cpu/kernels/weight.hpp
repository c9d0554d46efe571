// SPDX-License-Identifier: Apache-2.0
#pragma once
// Row weights in float32 with their offset.

#include "ops/cpu/kernels/types.hpp"
#include "sft/ops/norm_weight.hpp"

namespace sft::ops::cpu::SFT_ISA {

/// The elements of the weight, or their copy at the start of the scratch where they are otherwise.
inline const float* float32_weight(const ConstTensor& weight, float offset, Scratch scratch) {
  if (weight.dtype == DType::float32 && offset == 0.0f) return floats_of(weight);
  const ConstView view = flat_view_of(weight);
  ensure(view.columns <= scratch.num_floats, "ops: the workspace holds the weight");
  with_type(view, [&](auto type) {
    const auto* from = row<typename decltype(type)::type>(view, 0);
    for (std::int64_t i = 0; i < view.columns; ++i) scratch.data[i] = load(from[i]) + offset;
  });
  return scratch.data;
}
inline const float* float32_weight(const ConstTensor& weight, Scratch scratch) {
  return float32_weight(weight, 0.0f, scratch);
}
inline const float* float32_weight(const NormWeight& weight, Scratch scratch) {
  return float32_weight(weight.tensor, weight.offset, scratch);
}

/// The scratch after a converted weight.
inline Scratch scratch_after(const NormWeight& weight, Scratch scratch) {
  const std::int64_t size = weight.tensor.num_elements();
  ensure(size + max(column_sum_floats, size) <= scratch.num_floats, "ops: the workspace holds the weight");
  return {scratch.data + size, scratch.num_floats - size};
}

}  // namespace sft::ops::cpu::SFT_ISA
