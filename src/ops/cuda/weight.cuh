// SPDX-License-Identifier: Apache-2.0
#pragma once
// Row weights of a norm, which are float32 or have the dtype of what is normed.

#include "ops/cuda/kernels/view.hpp"
#include "ops/cuda/vector.cuh"

namespace sft::ops::cuda {

/// N neighbours of the weight with the offset; T is the dtype of what is normed.
template <class T, int N>
__device__ __forceinline__ void load_weight(float (&w)[N], const Weight& weight, std::int64_t column) {
  if constexpr (sizeof(T) == sizeof(float)) {
    load(w, static_cast<const float*>(weight.data) + column);
  } else if (weight.is_bf16) {
    load(w, static_cast<const Bf16*>(weight.data) + column);
  } else {
    load(w, static_cast<const float*>(weight.data) + column);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) w[i] += weight.offset;
}

inline bool is_aligned(const Weight& weight) { return reinterpret_cast<std::uintptr_t>(weight.data) % 16 == 0; }

}  // namespace sft::ops::cuda
