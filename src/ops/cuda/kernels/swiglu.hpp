// SPDX-License-Identifier: Apache-2.0
#pragma once
// SwiGLU (Shazeer 2020); see ops::Backend.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

void swiglu_forward(View act, ConstView gate_up, cudaStream_t stream);
/// dgate_up may be gate_up, act may be dact.
void swiglu_backward(View dgate_up, View act, ConstView dact, ConstView gate_up, cudaStream_t stream);

}  // namespace sft::ops::cuda
