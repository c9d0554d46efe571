// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small kernels. Each is queued on `stream`.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sft::test {

/// values[i] *= factor.
void scale(float* values, std::int64_t size, float factor, cudaStream_t stream);
/// *total = the sum of values, by one block: shared memory, barriers, shuffles.
void sum(const float* values, std::int64_t size, float* total, cudaStream_t stream);
/// The same by several blocks, of which the last one to finish adds what the others left in partials (4 elements).
/// *count is 0 before and after. Without `has_fence` the last block may read what is not there yet.
void sum_by_last_block(const float* values, std::int64_t size, float* partials, unsigned* count, float* total,
                       bool has_fence, cudaStream_t stream);
/// Every function for threads that exchange values, each checked against what it should return: *num_wrong counts.
void check_exchanges(unsigned* num_wrong, cudaStream_t stream);
/// Neighbouring threads write neighbouring elements of 1 and 2 bytes.
void write_small_elements(unsigned char* bytes, unsigned short* halves, cudaStream_t stream);
/// results[i] = values[i] through shared memory and cp.async, two groups of 16 bytes a thread: 64 * 8 elements.
void copy_asynchronously(const float* values, float* results, cudaStream_t stream);

/// results[i stride] = values[i stride] for i < 32, by a warp, through the same places of shared memory. Elements are
/// of 4 bytes, or of 16.
void copy_strided(const float* values, float* results, int stride, bool has_vectors, cudaStream_t stream);

/// Launches of an empty kernel.
void launch_empty(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream);

}  // namespace sft::test
