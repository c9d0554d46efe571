// SPDX-License-Identifier: Apache-2.0
#pragma once
// A step of AdamW with state in 8 bits; see ops::BlockwiseUpdate.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

struct BlockwiseArguments : UpdateFactors {
  BlockFactors blocks{};
  void* parameters = nullptr;  ///< float32 or bf16
  bool has_bf16_parameters = false;
  const float* gradients = nullptr;
  void* copy = nullptr;      ///< bf16, of float32 parameters; may be null
  std::uint8_t* codes[2]{};  ///< of both moments
  std::int64_t size = 0;     ///< elements of the views
};

void update_blockwise(const BlockwiseArguments& step, cudaStream_t stream);
void raise_scales(const BlockwiseArguments& step, cudaStream_t stream);

}  // namespace sft::ops::cuda
