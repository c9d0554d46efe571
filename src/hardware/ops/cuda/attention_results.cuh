// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the forward pass of attention has of a row once all its keys are seen.

#include "ops/cuda/attention_blocks.cuh"

namespace sft::ops::cuda {

/// Writes the log-sum-exp of this thread's rows first_row + 16 m + 8 half of an item, whose scores have the maximum
/// `largest` and, of the columns of this thread alone, the sum `total`, in units of ln 2. factor: what its sums are to
/// be multiplied with; before[row]: the same for what an earlier call has written. All lanes of a warp together.
///
/// Of this call alone: out = sums / total, lse = largest + log(total). Merged with those of earlier calls: new lse =
/// log(exp(lse) + exp(earlier lse)), new out = exp(lse - new lse) out + exp(earlier lse - new lse) earlier out. A sink
/// is an earlier lse whose out is 0.
template <int kM>
__device__ __forceinline__ void finish_rows(float (&factor)[kM][2], float* before, const AttentionForwardCall& call,
                                            const WorkItem& item, int first_row, const float (&largest)[kM][2],
                                            const float (&total)[kM][2]) {
  const float sink = sink_of(call.sinks, item) * log2_of_e;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = total[m][half];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      const int row = first_row + 16 * m + 8 * half;
      const float own = sum == 0.0f ? minus_infinity : largest[m][half] + log2f(sum);
      factor[m][half] = sum == 0.0f ? 0.0f : 1.0f / sum;
      const bool is_there = row < item.count;
      float* lse = call.lse + static_cast<std::int64_t>(item.begin + row) * call.num_heads + item.head;
      const float earlier = call.merges && is_there ? *lse * log2_of_e : sink;
      float merged = own, earlier_factor = 0.0f;
      if (earlier != minus_infinity) {
        const float top = fmaxf(own, earlier);
        merged = top + log2f(exp2f(own - top) + exp2f(earlier - top));
        factor[m][half] *= exp2f(own - merged);
        if (call.merges) earlier_factor = exp2f(earlier - merged);
      }
      __syncwarp();  // all of a row have read its lse
      if (is_there && threadIdx.x % 4 == 0) {
        before[row] = earlier_factor;
        *lse = merged * log_of_2;
      }
    }
  }
}

}  // namespace sft::ops::cuda
