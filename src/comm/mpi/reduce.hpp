// SPDX-License-Identifier: Apache-2.0
#pragma once
// Element by element reductions in a fixed order, so that every rank and every run gets the same bits.

#include <cstdint>
#include <span>

#include "sft/comm/collectives.hpp"
#include "sft/core/dtype.hpp"

namespace sft::comm {

/// out[i] = sources[0][i] op sources[1][i] op ..., from left to right. `out` may be one of the sources.
/// float32 or float64.
void reduce(void* out, std::span<const void* const> sources, std::int64_t num_elements, DType dtype, ReduceOp op);

/// reduce() in another order: that of recursive doubling over the sources (see reduce.cpp). `out` is none of them.
void reduce_by_doubling(void* out, std::span<const void* const> sources, std::int64_t num_elements, DType dtype,
                        ReduceOp op);

/// out[i] += sources[0][i] + sources[1][i] + ..., float32; the sources are added up first.
void add_sum(float* out, std::span<const void* const> sources, std::int64_t num_elements);

}  // namespace sft::comm
