// SPDX-License-Identifier: Apache-2.0
#pragma once
// A loop of a thread that has several reads of memory under way: an unrolled loop with an unknown number of turns, or
// with stores, reads what a turn needs only when the turn before has ended.

#include <cuda_runtime.h>

#include <cstdint>

namespace sft::ops::cuda {

/// Calls use(i, read(i)) for i = begin, begin + stride, ... below `end`, in this order, and reads for `ahead` of them
/// before it uses the first.
template <int ahead, class Read, class Use>
__device__ __forceinline__ void read_ahead(std::int64_t begin, std::int64_t end, std::int64_t stride, Read read,
                                           Use use) {
  for (; begin < end; begin += ahead * stride) {
    decltype(read(begin)) values[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      if (begin + k * stride < end) values[k] = read(begin + k * stride);
    }
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      if (begin + k * stride < end) use(begin + k * stride, values[k]);
    }
  }
}

}  // namespace sft::ops::cuda
