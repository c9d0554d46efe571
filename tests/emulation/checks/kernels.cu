// SPDX-License-Identifier: Apache-2.0
#include "checks/kernels.hpp"

#include "ops/cuda/launch.cuh"

namespace sft::test {

namespace {

constexpr int block_size = 128;

__global__ void __launch_bounds__(block_size) scale_kernel(float* values, std::int64_t size, float factor) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += stride) {
    values[i] *= factor;
  }
}

__global__ void __launch_bounds__(block_size) sum_kernel(const float* values, std::int64_t size, float* total) {
  auto* const sums = cuda::shared_memory<float>();
  float mine = 0;
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) mine += values[i];
  for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_xor_sync(~0U, mine, offset);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float result = 0;
  for (unsigned i = 0; i < blockDim.x / 32; ++i) result += sums[i];
  *total = result;
}

}  // namespace

void scale(float* values, std::int64_t size, float factor, cudaStream_t stream) {
  cuda::launch("scale", scale_kernel, 3, block_size, 0, stream, values, size, factor);
}

void sum(const float* values, std::int64_t size, float* total, cudaStream_t stream) {
  cuda::launch("sum", sum_kernel, 1, block_size, block_size / 32 * sizeof(float), stream, values, size, total);
}

}  // namespace sft::test
