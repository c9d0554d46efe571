// SPDX-License-Identifier: Apache-2.0
#include "ops/warp_kernels.hpp"

#include "ops/cuda/launch.cuh"
#include "ops/cuda/warp.cuh"

namespace sft::ops::testing {

namespace {

constexpr unsigned max_threads = 256;

__global__ void __launch_bounds__(max_threads) reduce_rows_kernel(RowResults* results, const float* values) {
  auto* scratch = sft::cuda::shared_memory<double>();
  auto* floats = reinterpret_cast<float*>(scratch);
  const float x = values[threadIdx.y * blockDim.x + threadIdx.x];
  RowResults mine;
  mine.max = cuda::row_max(x, floats);
  mine.negated_max = cuda::row_max(-x, floats);
  mine.sum = cuda::row_sum(x, floats);
  mine.sum_of_squares = cuda::row_sum(static_cast<double>(x) * static_cast<double>(x), scratch);
  if (threadIdx.x == 0) results[threadIdx.y] = mine;
}

}  // namespace

void reduce_rows(RowResults* results, const float* values, unsigned num_rows, unsigned row_threads,
                 cudaStream_t stream) {
  sft::cuda::launch("reduce_rows", reduce_rows_kernel, dim3(1), dim3(row_threads, num_rows),
                    num_rows * row_threads / cuda::warp_size * sizeof(double), stream, results, values);
}

}  // namespace sft::ops::testing
