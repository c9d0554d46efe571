// SPDX-License-Identifier: Apache-2.0
#pragma once
// From tensors to what only the kernels of this backend are given.

#include "ops/cuda/kernels/view.hpp"
#include "ops/tensor_arguments.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops::cuda {

/// The weight of a norm over `x`.
[[nodiscard]] inline Weight weight_of(const ConstTensor& weight, const ConstTensor& x) {
  SFT_ENSURE(weight.dtype == DType::float32 || weight.dtype == x.dtype,
             "ops: a weight is float32 or as what it weighs");
  return {flat_view_of(weight).data, weight.dtype == DType::bf16};
}

}  // namespace sft::ops::cuda
