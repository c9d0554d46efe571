// SPDX-License-Identifier: Apache-2.0
#pragma once
// A step of an optimizer that treats elements alone; see ops::Backend::update.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

struct UpdateArguments : UpdateFactors {
  View parameters{};                ///< a row of float32 or bf16, as all others
  View state[max_update_states]{};  ///< those of the rule; all float32 or all bf16
  ConstView gradients{};            ///< float32
  View copy{};                      ///< bf16, of float32 parameters; without data: none
};

void update(const UpdateArguments& step, cudaStream_t stream);

}  // namespace sft::ops::cuda
