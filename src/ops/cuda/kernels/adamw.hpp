// SPDX-License-Identifier: Apache-2.0
#pragma once
// AdamW (Loshchilov & Hutter 2019); see ops::Backend.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

struct AdamWArguments {
  View parameters;           ///< a row of float32 or bf16, as all others
  View exp_avg, exp_avg_sq;  ///< both float32 or both bf16
  View gradients;            ///< float32
  View copy;                 ///< bf16, of float32 parameters; without data: none
  float decay;               ///< 1 - learning_rate * weight_decay
  float one_minus_beta1, beta2, one_minus_beta2;
  float inverse_sqrt_bias_correction2, epsilon, step_size, gradient_scale;
  // StochasticRounding; without bf16 it is not read. key is odd.
  std::uint64_t key;
  std::int64_t first_index, num_columns, row_stride, begin;
};

void adamw(const AdamWArguments& step, cudaStream_t stream);

}  // namespace sft::ops::cuda
