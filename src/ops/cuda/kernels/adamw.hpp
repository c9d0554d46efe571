// SPDX-License-Identifier: Apache-2.0
#pragma once
// AdamW (Loshchilov & Hutter 2019); see ops::Backend.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

struct AdamWArguments : AdamWFactors {
  View parameters{};             ///< a row of float32 or bf16, as all others
  View exp_avg{}, exp_avg_sq{};  ///< both float32 or both bf16
  View gradients{};              ///< float32
  View copy{};                   ///< bf16, of float32 parameters; without data: none
};

void adamw(const AdamWArguments& step, cudaStream_t stream);

}  // namespace sft::ops::cuda
