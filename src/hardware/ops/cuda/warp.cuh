// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums and maxima over the threads of a warp or a block, always in the same order. Every thread gets the result; all
// threads of the warp, or of the block, have to call.

#include <cuda_runtime.h>

namespace sft::ops::cuda {

inline constexpr unsigned warp_size = 32, all_lanes = 0xffffffffu;

/// Over each `width` neighbouring lanes, a power of two of at most 32.
template <class T>
__device__ __forceinline__ T lane_sum(T x, unsigned width) {
  for (unsigned distance = width / 2; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(all_lanes, x, static_cast<int>(distance));
  }
  return x;
}

template <class T>
__device__ __forceinline__ T warp_sum(T x) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(all_lanes, x, distance);
  return x;
}

/// NaN where one of them is NaN is not promised.
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(all_lanes, x, distance));
  return x;
}

/// Over the threads of the block that have the same threadIdx.y; blockDim.x is a multiple of 32. `scratch`, shared
/// memory, holds a T for each warp of the block.
template <class T>
__device__ __forceinline__ T row_sum(T x, T* scratch) {
  x = warp_sum(x);
  const unsigned num_warps = blockDim.x / warp_size;
  if (num_warps == 1) return x;
  T* warps = scratch + threadIdx.y * num_warps;
  __syncthreads();  // an earlier sum may still be read
  if (threadIdx.x % warp_size == 0) warps[threadIdx.x / warp_size] = x;
  __syncthreads();
  T total = warps[0];
  for (unsigned warp = 1; warp < num_warps; ++warp) total += warps[warp];
  return total;
}

/// As row_sum.
__device__ __forceinline__ float row_max(float x, float* scratch) {
  x = warp_max(x);
  const unsigned num_warps = blockDim.x / warp_size;
  if (num_warps == 1) return x;
  float* warps = scratch + threadIdx.y * num_warps;
  __syncthreads();
  if (threadIdx.x % warp_size == 0) warps[threadIdx.x / warp_size] = x;
  __syncthreads();
  float largest = warps[0];
  for (unsigned warp = 1; warp < num_warps; ++warp) largest = fmaxf(largest, warps[warp]);
  return largest;
}

}  // namespace sft::ops::cuda
