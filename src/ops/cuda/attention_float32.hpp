// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention of float32 tensors in float32 arithmetic. Plain C++17, for host code and for nvcc.

#include <cuda_runtime.h>

#include "ops/cuda/attention_calls.hpp"

namespace sft::ops::cuda {

/// Head dims are at most 256. Outputs are float32.
void attention_forward_float32(const AttentionForwardCall& call, cudaStream_t stream);
void attention_backward_float32(const AttentionBackwardCall& call, cudaStream_t stream);

}  // namespace sft::ops::cuda
