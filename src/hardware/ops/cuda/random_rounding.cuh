// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers that are stored in fewer bits by chance, see ops::StochasticRounding.

#include <cuda_runtime.h>

#include <cstdint>

namespace sft::ops::cuda {

/// x, or x rounded at random by the lowest 16 of `bits` to what T holds exactly.
template <class T>
__device__ __forceinline__ float rounded_at_random(float x, std::uint64_t bits) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return x;
  } else {
    const unsigned sum = __float_as_uint(x) + (static_cast<unsigned>(bits) & 0xffffu);
    return __uint_as_float((x != x ? 0x7fc00000u : sum) & 0xffff0000u);
  }
}

}  // namespace sft::ops::cuda
