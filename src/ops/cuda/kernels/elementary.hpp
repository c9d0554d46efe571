// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fill, copy with conversion, sums of two matrices.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

void fill(View x, float value, cudaStream_t stream);
/// Any pair of float32 and bf16.
void copy(View destination, ConstView source, cudaStream_t stream);
/// destination += source, float32.
void add(View destination, ConstView source, cudaStream_t stream);
void scale(View x, float factor, cudaStream_t stream);
/// x /= max(square root of *squares, epsilon), float32.
void divide_by_norm(View x, const double* squares, float epsilon, cudaStream_t stream);
/// Every row of x += bias (columns).
void add_bias(View x, Weight bias, cudaStream_t stream);

}  // namespace sft::ops::cuda
