// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums of what several ranks have sent into this rank's GPU, in rank order, so that every rank and every run gets the
// same bits. Device memory; 16-byte accesses where everything begins on 16 bytes. Each call queues on `stream`, and
// throws where the launch is refused.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "comm/contributions.hpp"

namespace sft::comm {

/// out[i] = part 0 + part 1 + ..., from left to right. T: float or double. `out` may be one of the parts.
template <class T>
void sum_parts(T* out, const Contributions& parts, std::int64_t num_elements, cudaStream_t stream);
/// out[i] = the largest of part 0, part 1, ...; a NaN stays. T: float or double. `out` may be one of the parts.
template <class T>
void max_parts(T* out, const Contributions& parts, std::int64_t num_elements, cudaStream_t stream);
/// out[i] += part 0 + part 1 + ...; the parts are added up first.
void add_parts(float* out, const Contributions& parts, std::int64_t num_elements, cudaStream_t stream);

// Float32 numbers that travel between GPUs as bf16: rounded, and added up again in float32 (bf16_parts.cu).

/// to[i] = from[i], rounded to the nearest, ties to even. They do not overlap.
void round_to_bf16(__nv_bfloat16* to, const float* from, std::int64_t num_elements, cudaStream_t stream);
/// out[i] = part 0 + part 1 + ..., of bf16 parts, from left to right in float32; with `adds`, out[i] += that. `out` is
/// none of the parts.
void sum_bf16_parts(float* out, const Contributions& parts, std::int64_t num_elements, bool adds, cudaStream_t stream);

}  // namespace sft::comm
