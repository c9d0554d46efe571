// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random numbers by seed and index, and dropout; see ops::Backend. Views are one row.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

void fill_normal(View x, std::uint64_t seed, std::int64_t first_index, float stddev, cudaStream_t stream);
void fill_uniform(View x, std::uint64_t seed, std::int64_t first_index, float bound, cudaStream_t stream);
/// out may be in.
void dropout(View out, ConstView in, float probability, std::uint64_t seed, std::int64_t first_index, bool accumulate,
             cudaStream_t stream);

}  // namespace sft::ops::cuda
