// SPDX-License-Identifier: Apache-2.0
#pragma once
// The attention of the CUDA backend: checks the arguments as the CPU backend does and picks the kernels for them. The
// calls are queued on `stream`; see ops::Backend for what they compute and when they throw.

#include <cuda_runtime.h>

#include "ops/cuda/attention_plan.hpp"
#include "sft/ops/backend.hpp"

namespace sft::ops::cuda {

void attention_forward(const AttentionForward& attention, cudaStream_t stream);
void attention_delta(const Tensor& delta, const ConstTensor& out, const ConstTensor& dout, cudaStream_t stream);
void attention_backward(const AttentionBackward& attention, cudaStream_t stream);

}  // namespace sft::ops::cuda
