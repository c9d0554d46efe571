// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arguments of the CUDA backend's kernels: matrices in device memory.
//
// Legend of all kernels: T tokens, C hidden size, D head dim, F MLP columns, V vocabulary rows, n heads; s bytes of an
// element. "Moves" is the least traffic of device memory; at the bandwidth of the GPU it is the time to reach.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "ops/views/view.hpp"

namespace sft::ops::cuda {

template <class Memory>
[[nodiscard]] bool is_empty(const BasicView<Memory>& view) {
  return view.rows == 0 || view.columns == 0;
}

/// Row weights, float32 or bf16, and what is added to them.
struct Weight {
  const void* data;
  bool is_bf16;
  float offset = 0.0f;
};

/// Device memory for the duration of a call; 256-byte aligned.
struct Workspace {
  void* data = nullptr;
  std::size_t num_bytes = 0;
};

}  // namespace sft::ops::cuda
