// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one sum that NCCL does not do.

#include <cuda_runtime.h>

#include <cstdint>

namespace sft::comm {

/// destination[i] += source[i] on `stream`; device memory, float32. 16-byte accesses where both begin on 16 bytes.
/// Throws where the launch is refused.
void add(float* destination, const float* source, std::int64_t num_elements, cudaStream_t stream);

}  // namespace sft::comm
