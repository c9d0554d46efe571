// SPDX-License-Identifier: Apache-2.0
#pragma once
// A kernel of ops/cuda/warp.cuh alone. Plain C++17.

#include <cuda_runtime_api.h>

namespace sft::ops::testing {

/// What a row of threads makes of its values.
struct RowResults {
  float max, negated_max, sum;
  double sum_of_squares;
};

/// One block: results[r] of values[r row_threads ...] for `num_rows` rows of `row_threads` threads, a multiple of 32,
/// one after the other through the same scratch memory.
void reduce_rows(RowResults* results, const float* values, unsigned num_rows, unsigned row_threads,
                 cudaStream_t stream);

}  // namespace sft::ops::testing
