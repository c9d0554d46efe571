// SPDX-License-Identifier: Apache-2.0
#pragma once
// Row weights of a norm, which are float32 or have the dtype of what is normed.

#include <type_traits>

#include "ops/cuda/kernels/view.hpp"
#include "ops/cuda/vector.cuh"
#include "ops/views/tensor.hpp"
#include "sft/ops/norm_weight.hpp"

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

/// The weights of `count` vectors of N, `threads` vectors apart, from number `first` on; where there are fewer than
/// num_vectors, of those that there are.
template <class T, int N, int count>
__device__ __forceinline__ void load_weights(float (&w)[count][N], const Weight& weight, std::int64_t first,
                                             std::int64_t threads, std::int64_t num_vectors) {
  const auto each = [&](const auto* data) {
    using From = std::remove_const_t<std::remove_pointer_t<decltype(data)>>;
    Packed<From, N> packed[count];
#pragma unroll
    for (int k = 0; k < count; ++k) {
      if (first + k * threads < num_vectors) packed[k].read(data + (first + k * threads) * N);
    }
#pragma unroll
    for (int k = 0; k < count; ++k) {
      packed[k].unpack(w[k]);
#pragma unroll
      for (int i = 0; i < N; ++i) w[k][i] += weight.offset;
    }
  };
  if constexpr (sizeof(T) == sizeof(float)) {
    each(static_cast<const float*>(weight.data));
  } else if (weight.is_bf16) {
    each(static_cast<const Bf16*>(weight.data));
  } else {
    each(static_cast<const float*>(weight.data));
  }
}

/// The weight of a norm over `x`.
[[nodiscard]] inline Weight weight_of(const NormWeight& weight, const ConstTensor& x) {
  const ConstTensor& tensor = weight.tensor;
  ensure(tensor.dtype == DType::float32 || tensor.dtype == x.dtype, "ops: a weight is float32 or as what it weighs");
  return {flat_view_of(tensor).data, tensor.dtype == DType::bf16, weight.offset};
}

inline bool is_aligned(const Weight& weight) { return reinterpret_cast<std::uintptr_t>(weight.data) % 16 == 0; }

}  // namespace sft::ops::cuda
