// SPDX-License-Identifier: Apache-2.0
#pragma once
// From tensors to what only the kernels of this backend are given.

#include "ops/cuda/kernels/view.hpp"
#include "ops/tensor_arguments.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops::cuda {

/// The weight of a norm over `x`.
[[nodiscard]] inline Weight weight_of(const NormWeight& weight, const ConstTensor& x) {
  const ConstTensor& tensor = weight.tensor;
  SFT_ENSURE(tensor.dtype == DType::float32 || tensor.dtype == x.dtype,
             "ops: a weight is float32 or as what it weighs");
  return {flat_view_of(tensor).data, tensor.dtype == DType::bf16, weight.offset};
}

}  // namespace sft::ops::cuda
