// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plain C++17, for host code and for nvcc.

#include <cuda_runtime.h>

#include <cstdint>

#include "ops/cuda/attention_calls.hpp"

namespace sft::ops::cuda {

/// delta (num_tokens, num_heads) float32 = sum over D of out * dout, both of one dtype.
void attention_delta_rows(float* delta, const ConstHeadRows& out, const ConstHeadRows& dout, std::int64_t num_tokens,
                          int num_heads, int head_dim, cudaStream_t stream);

}  // namespace sft::ops::cuda
