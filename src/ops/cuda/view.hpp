// SPDX-License-Identifier: Apache-2.0
#pragma once
// From tensors to the plain arguments of the kernels.

#include "ops/cuda/kernels/view.hpp"
#include "sft/core/error.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops::cuda {

/// The first dim are the rows; all others, which are contiguous, the columns.
[[nodiscard]] inline View view_of(const Tensor& x) {
  if (x.data == nullptr) return {};
  ensure(x.dtype == DType::float32 || x.dtype == DType::bf16, "ops: float32 or bf16 expected");
  const std::int64_t columns = x.row_elements();
  return {x.data, x.dtype == DType::bf16, x.shape[0], columns, x.shape[0] > 1 ? x.stride0 : columns};
}

/// A contiguous tensor as one long row.
[[nodiscard]] inline View flat_view_of(const Tensor& x) {
  ensure(x.is_contiguous() || x.shape[0] <= 1, "ops: contiguous tensor expected");
  View view = view_of(x);
  view.columns *= view.rows;
  view.rows = 1;
  view.stride = view.columns;
  return view;
}

/// The elements of a contiguous float32 tensor.
[[nodiscard]] inline float* floats_of(const Tensor& x) {
  ensure(x.dtype == DType::float32, "ops: float32 expected");
  ensure(x.is_contiguous() || x.shape[0] <= 1, "ops: contiguous tensor expected");
  return x.as<float>();
}

/// The weight of a norm over `x`.
[[nodiscard]] inline Weight weight_of(const Tensor& weight, const Tensor& x) {
  ensure(weight.dtype == DType::float32 || weight.dtype == x.dtype, "ops: a weight is float32 or as what it weighs");
  return {flat_view_of(weight).data, weight.dtype == DType::bf16};
}

}  // namespace sft::ops::cuda
