// SPDX-License-Identifier: Apache-2.0
#pragma once
// RMSNorm (Zhang & Sennrich 2019); see ops::Backend. The weight is float32 or has the dtype of x.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

void rms_norm_forward(View y, float* rstd, ConstView x, Weight weight, float epsilon, cudaStream_t stream);
/// sum may be x.
void add_rms_norm_forward(View sum, View y, float* rstd, ConstView x, ConstView delta, Weight weight, float epsilon,
                          cudaStream_t stream);
void rms_norm_apply(View y, ConstView x, const float* rstd, Weight weight, cudaStream_t stream);

/// Rows of partial sums, of `columns` float32 each, that rms_norm_backward leaves: at most 8 MiB, or a few rows.
[[nodiscard]] std::int64_t rms_norm_backward_partials(std::int64_t rows, std::int64_t columns);
/// The column sums of `partials` are the gradient of the weight; null: not asked for. dresidual may be dx; without
/// data: zero.
void rms_norm_backward(View dx, float* partials, ConstView dy, ConstView x, const float* rstd, Weight weight,
                       ConstView dresidual, cudaStream_t stream);

}  // namespace sft::ops::cuda
