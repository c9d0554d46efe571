// SPDX-License-Identifier: Apache-2.0
#include "checks/kernels.hpp"

#include "emulated_gpu/launch.cuh"

namespace sft::test {

namespace {

constexpr int block_size = 128;
constexpr unsigned all_lanes = 0xffffffffU;

__global__ void __launch_bounds__(block_size) scale_kernel(float* values, std::int64_t size, float factor) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += stride) {
    values[i] *= factor;
  }
}

/// The sum of x over the block, in thread 0.
__device__ float block_sum(float x) {
  auto* const sums = emulation::shared_memory<float>();
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(all_lanes, x, offset);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
  __syncthreads();
  float result = 0;
  for (unsigned i = 0; i < blockDim.x / 32; ++i) result += sums[i];
  __syncthreads();
  return result;
}

__global__ void __launch_bounds__(block_size) sum_kernel(const float* values, std::int64_t size, float* total) {
  float mine = 0;
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) mine += values[i];
  mine = block_sum(mine);
  if (threadIdx.x == 0) *total = mine;
}

__global__ void __launch_bounds__(block_size)
    sum_by_last_block_kernel(const float* values, std::int64_t size, float* partials, unsigned* count, float* total,
                             bool has_fence) {
  auto* const is_last = emulation::shared_memory<unsigned>() + block_size / 32;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  float mine = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += stride) {
    mine += values[i];
  }
  mine = block_sum(mine);
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = mine;
    if (has_fence) __threadfence();
    *is_last = atomicAdd(count, 1U) == gridDim.x - 1 ? 1 : 0;
  }
  __syncthreads();
  if (*is_last == 0 || threadIdx.x != 0) return;
  float result = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) result += partials[i];
  *total = result;
  atomicExch(count, 0U);
}

__global__ void __launch_bounds__(block_size) check_exchanges_kernel(unsigned* num_wrong) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int thread = static_cast<int>(threadIdx.x);
  const auto expect = [num_wrong](bool is_right) {
    if (!is_right) atomicAdd(num_wrong, 1U);
  };
  expect(__shfl_sync(all_lanes, thread, 3) == thread / 32 * 32 + 3);
  expect(__shfl_sync(all_lanes, lane, 3, 8) == lane / 8 * 8 + 3);
  expect(__shfl_up_sync(all_lanes, lane, 2U) == (lane < 2 ? lane : lane - 2));
  expect(__shfl_up_sync(all_lanes, lane, 2U, 8) == (lane % 8 < 2 ? lane : lane - 2));
  expect(__shfl_down_sync(all_lanes, lane, 2U) == (lane > 29 ? lane : lane + 2));
  expect(__shfl_down_sync(all_lanes, lane, 2U, 8) == (lane % 8 > 5 ? lane : lane + 2));
  expect(__shfl_xor_sync(all_lanes, 1.5 * lane, 16) == 1.5 * (lane ^ 16));
  expect(__shfl_xor_sync(all_lanes, lane, 16, 8) == (lane >= 16 ? lane - 16 : lane));
  expect(__ballot_sync(all_lanes, lane % 2) == 0xaaaaaaaaU);
  expect(__any_sync(all_lanes, lane == 7) == 1 && __any_sync(all_lanes, 0) == 0);
  expect(__all_sync(all_lanes, lane < 32) == 1 && __all_sync(all_lanes, lane != 7) == 0);
  if (lane < 8) expect(__shfl_xor_sync(0xffU, lane, 1) == (lane ^ 1));
  expect(__syncthreads_count(thread < 5) == 5);
  expect(__syncthreads_or(thread == 100) == 1 && __syncthreads_or(0) == 0);
  expect(__syncthreads_and(1) == 1 && __syncthreads_and(thread != 100) == 0);

  auto* const words = emulation::shared_memory<unsigned>();
  words[thread] = static_cast<unsigned>(thread);
  __syncwarp();
  expect(words[thread ^ 1] == static_cast<unsigned>(thread ^ 1));
  __syncthreads();
  if (thread == 0) words[0] = 0;
  __syncthreads();
  atomicMax(&words[0], static_cast<unsigned>(thread));
  __syncthreads();
  expect(words[0] == blockDim.x - 1);
  __syncthreads();
  if (thread < 2) atomicCAS(&words[0], blockDim.x - 1, 5U);
  __syncthreads();
  expect(words[0] == 5);
}

__global__ void write_small_elements_kernel(unsigned char* bytes, unsigned short* halves) {
  bytes[threadIdx.x] = static_cast<unsigned char>(threadIdx.x);
  halves[threadIdx.x] = static_cast<unsigned short>(threadIdx.x);
}

__global__ void copy_asynchronously_kernel(const float* values, float* results) {
  auto* const stage = emulation::shared_memory<float>();
  const int first = 4 * static_cast<int>(threadIdx.x), second = first + 4 * static_cast<int>(blockDim.x);
  emulation::defer_copy(stage + first, values + first, 16, 16);
  emulation::commit_copies();
  emulation::defer_copy(stage + second, values + second, 16, 8);  // the rest is zeros
  emulation::commit_copies();
  emulation::wait_copies(1);
  __syncthreads();
  const int other = 4 * static_cast<int>(blockDim.x - 1 - threadIdx.x);
  for (int i = 0; i < 4; ++i) results[other + i] = stage[other + i];
  emulation::wait_copies(0);
  for (int i = 0; i < 4; ++i) results[second + i] = stage[second + i];
}

template <class T>
__global__ void copy_strided_kernel(const float* values, float* results, int stride) {
  auto* const stage = emulation::shared_memory<T>();
  const int i = static_cast<int>(threadIdx.x) * stride;
  stage[i] = reinterpret_cast<const T*>(values)[i];
  __syncwarp();
  reinterpret_cast<T*>(results)[i] = stage[i];
}

__global__ void empty_kernel() {}

}  // namespace

void scale(float* values, std::int64_t size, float factor, cudaStream_t stream) {
  emulation::launch("scale", scale_kernel, 3, block_size, 0, stream, values, size, factor);
}

void sum(const float* values, std::int64_t size, float* total, cudaStream_t stream) {
  emulation::launch("sum", sum_kernel, 1, block_size, block_size / 32 * sizeof(float), stream, values, size, total);
}

void sum_by_last_block(const float* values, std::int64_t size, float* partials, unsigned* count, float* total,
                       bool has_fence, cudaStream_t stream) {
  emulation::launch("sum_by_last_block", sum_by_last_block_kernel, 4, block_size, (block_size / 32 + 1) * sizeof(float),
                    stream, values, size, partials, count, total, has_fence);
}

void check_exchanges(unsigned* num_wrong, cudaStream_t stream) {
  emulation::launch("check_exchanges", check_exchanges_kernel, 1, block_size, block_size * sizeof(unsigned), stream,
                    num_wrong);
}

void write_small_elements(unsigned char* bytes, unsigned short* halves, cudaStream_t stream) {
  emulation::launch("write_small_elements", write_small_elements_kernel, 1, 64, 0, stream, bytes, halves);
}

void copy_asynchronously(const float* values, float* results, cudaStream_t stream) {
  emulation::launch("copy_asynchronously", copy_asynchronously_kernel, 1, 64, 64 * 8 * sizeof(float), stream, values,
                    results);
}

void copy_strided(const float* values, float* results, int stride, bool has_vectors, cudaStream_t stream) {
  const std::size_t element_bytes = has_vectors ? sizeof(float4) : sizeof(float);
  emulation::launch("copy_strided", has_vectors ? copy_strided_kernel<float4> : copy_strided_kernel<float>, 1, 32,
                    32 * static_cast<std::size_t>(stride) * element_bytes, stream, values, results, stride);
}

void launch_empty(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream) {
  emulation::launch("empty", empty_kernel, grid, block, shared_bytes, stream);
}

}  // namespace sft::test
