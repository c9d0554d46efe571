// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention of bf16 tensors with the warp-wide matrix instructions of compute capability 8.0, which all later GPUs
// have. Plain C++17, for host code and for nvcc.

#include <cuda_runtime.h>

#include "ops/cuda/attention_calls.hpp"

namespace sft::ops::cuda {

/// Head dims are even and at most 256; 64 and 128 are fast.
void attention_forward_sm80(const AttentionForwardCall& call, cudaStream_t stream);
void attention_backward_sm80(const AttentionBackwardCall& call, cudaStream_t stream);

}  // namespace sft::ops::cuda
