// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/attention_calls.hpp"

#include "ops/cuda/launch.cuh"

namespace sft::ops::cuda {

namespace {

constexpr int threads = 256;

/// Weighs the two results of a token and head by what they sum up: `lanes` neighbouring lanes of a warp a row.
///
/// Moves num_rows (3 D + 3) 4 bytes.
template <bool IsVector>
__global__ __launch_bounds__(threads) void merge_kernel(float* out, std::int64_t out_stride, float* lse,
                                                        const float* part, const float* part_lse, std::int64_t num_rows,
                                                        int num_heads, int head_dim, int lanes) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (threads / lanes) + threadIdx.x / lanes;
  float total = 0.0f;
  if (row < num_rows) {
    const float before = lse[row], added = part_lse[row];
    const float largest = fmaxf(before, added);
    total = largest + logf(expf(before - largest) + expf(added - largest));
    const float kept = expf(before - total), share = expf(added - total);
    float* const to = out + row / num_heads * out_stride + row % num_heads * head_dim;
    const float* const from = part + row * head_dim;
    if (IsVector) {
      for (int d = 4 * lane; d < head_dim; d += 4 * lanes) {
        float4 x = *reinterpret_cast<const float4*>(to + d);
        const float4 y = *reinterpret_cast<const float4*>(from + d);
        x.x = kept * x.x + share * y.x;
        x.y = kept * x.y + share * y.y;
        x.z = kept * x.z + share * y.z;
        x.w = kept * x.w + share * y.w;
        *reinterpret_cast<float4*>(to + d) = x;
      }
    } else {
      for (int d = lane; d < head_dim; d += lanes) to[d] = kept * to[d] + share * from[d];
    }
  }
  __syncwarp();  // all lanes of a row have read its log-sum-exp
  if (lane == 0 && row < num_rows) lse[row] = total;
}

}  // namespace

void attention_merge(const HeadRows& out, float* lse, const float* part, const float* part_lse, std::int64_t num_tokens,
                     int num_heads, int head_dim, cudaStream_t stream) {
  const std::int64_t num_rows = num_tokens * num_heads;
  if (num_rows == 0) return;
  const bool is_vector = out.is_vector && head_dim % 4 == 0;
  const int elements_at_once = is_vector ? 4 : 1;
  int lanes = 1;
  while (lanes < 32 && lanes * elements_at_once < head_dim) lanes *= 2;
  const std::int64_t rows_of_block = threads / lanes;
  const dim3 grid(static_cast<unsigned>((num_rows + rows_of_block - 1) / rows_of_block));
  auto* const kernel = is_vector ? merge_kernel<true> : merge_kernel<false>;
  sft::cuda::launch("attention_merge", kernel, grid, dim3(threads), 0, stream, static_cast<float*>(out.data),
                    out.row_stride, lse, part, part_lse, num_rows, num_heads, head_dim, lanes);
}

}  // namespace sft::ops::cuda
