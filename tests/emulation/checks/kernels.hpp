// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small kernels, right ones and wrong ones. All are queued on `stream`.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sft::test {

/// values[i] *= factor.
void scale(float* values, std::int64_t size, float factor, cudaStream_t stream);
/// *sum = the sum of values, over one block: shared memory, barriers, shuffles.
void sum(const float* values, std::int64_t size, float* total, cudaStream_t stream);

}  // namespace sft::test
