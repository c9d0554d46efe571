// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arguments of the kernels out of those of the operations, where they take more than a view of each tensor. Broken
// contracts throw std::logic_error.

#include <cstdint>

#include "ops/cuda/kernels/kernels.hpp"
#include "ops/tensor_arguments.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops::cuda {

inline BlockwiseArguments arguments_of_blocks(const BlockwiseUpdate& step) {
  const Update& update = step.update;
  BlockwiseArguments arguments{factors_of(update), block_factors_of(step)};
  arguments.parameters = flat_view_of(update.parameters).data;
  arguments.has_bf16_parameters = update.parameters.dtype == DType::bf16;
  arguments.gradients = floats_of(update.gradients);
  arguments.copy = update.copy.data;
  for (std::size_t i = 0; i < update.state.size(); ++i) arguments.codes[i] = update.state[i].as<std::uint8_t>();
  arguments.size = update.gradients.num_elements();
  return arguments;
}

inline void check_head_dim(const ConstTensor& x) {
  SFT_ENSURE(x.ndim == 3 && x.shape[2] <= max_head_dim && x.shape[2] % 2 == 0, "ops: head_dim must be even and <= 256");
}

}  // namespace sft::ops::cuda
