// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/attention_calls.hpp"

#include <cuda_bf16.h>

#include "ops/cuda/kernels/run.hpp"
#include "ops/cuda/launch.cuh"
#include "sft/ops/calls/attention.hpp"

namespace sft::ops::cuda {

namespace {

constexpr int threads = 256;

__device__ __forceinline__ float as_float(float x) { return x; }
__device__ __forceinline__ float as_float(__nv_bfloat16 x) { return __bfloat162float(x); }

/// Sum of products of 16 bytes of each.
__device__ __forceinline__ float product_of(const float* a, const float* b) {
  const float4 x = *reinterpret_cast<const float4*>(a), y = *reinterpret_cast<const float4*>(b);
  return x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}
__device__ __forceinline__ float product_of(const __nv_bfloat16* a, const __nv_bfloat16* b) {
  const uint4 x = *reinterpret_cast<const uint4*>(a), y = *reinterpret_cast<const uint4*>(b);
  const unsigned left[4] = {x.x, x.y, x.z, x.w}, right[4] = {y.x, y.y, y.z, y.w};
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum += __uint_as_float(left[i] << 16) * __uint_as_float(right[i] << 16);
    sum += __uint_as_float(left[i] & 0xffff0000u) * __uint_as_float(right[i] & 0xffff0000u);
  }
  return sum;
}

/// delta[row] = sum of out * dout over D, where a row is a token and a head: `lanes` neighbouring lanes of a warp a
/// row, the sum in an order that depends on D alone.
///
/// Moves num_rows (2 D element bytes + 4) bytes.
template <class T>
__global__ __launch_bounds__(threads) void delta_kernel(float* delta, const ConstHeadRows out, const ConstHeadRows dout,
                                                        std::int64_t num_rows, int num_heads, int head_dim, int lanes,
                                                        bool is_vector) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (threads / lanes) + threadIdx.x / lanes;
  float sum = 0.0f;
  if (row < num_rows) {
    const std::int64_t token = row / num_heads, column = row % num_heads * head_dim;
    const T* a = static_cast<const T*>(out.data) + token * out.row_stride + column;
    const T* b = static_cast<const T*>(dout.data) + token * dout.row_stride + column;
    if (is_vector) {
      constexpr int width = 16 / static_cast<int>(sizeof(T));
      for (int d = width * lane; d < head_dim; d += width * lanes) sum += product_of(a + d, b + d);
    } else {
      for (int d = lane; d < head_dim; d += lanes) sum += as_float(a[d]) * as_float(b[d]);
    }
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (lane == 0 && row < num_rows) delta[row] = sum;
}

template <class T>
void launch_delta(float* delta, const ConstHeadRows& out, const ConstHeadRows& dout, std::int64_t num_rows,
                  int num_heads, int head_dim, cudaStream_t stream) {
  const bool is_vector = out.is_vector && dout.is_vector;
  const int elements_at_once = is_vector ? 16 / static_cast<int>(sizeof(T)) : 1;
  int lanes = 1;
  while (lanes < 32 && lanes * elements_at_once < head_dim) lanes *= 2;
  const std::int64_t rows_of_block = threads / lanes;
  sft::cuda::launch("attention_delta", delta_kernel<T>,
                    dim3(static_cast<unsigned>((num_rows + rows_of_block - 1) / rows_of_block)), dim3(threads), 0,
                    stream, delta, out, dout, num_rows, num_heads, head_dim, lanes, is_vector);
}

}  // namespace

template <>
void run(const ops::AttentionDelta& op, const Context& context) {
  ensure(op.out.dtype == op.dout.dtype, "ops: the output of attention and its gradient have one dtype");
  const ConstHeadRows out = head_rows(op.out), dout = head_rows(op.dout);
  float* const delta = floats_of(op.delta);
  const int num_heads = static_cast<int>(op.out.shape[1]), head_dim = static_cast<int>(op.out.shape[2]);
  const std::int64_t num_tokens = op.out.shape[0];
  const cudaStream_t stream = context.stream;
  const std::int64_t num_rows = num_tokens * num_heads;
  if (num_rows == 0) return;
  if (out.is_bf16) return launch_delta<__nv_bfloat16>(delta, out, dout, num_rows, num_heads, head_dim, stream);
  launch_delta<float>(delta, out, dout, num_rows, num_heads, head_dim, stream);
}

}  // namespace sft::ops::cuda
