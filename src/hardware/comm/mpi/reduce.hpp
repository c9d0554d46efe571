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

// Numbers that travel as bf16.

/// to[i] = from[i], rounded to the nearest.
void round_to_bf16(std::uint16_t* to, const float* from, std::int64_t num_elements);

/// out[i] = sources[0][i] + sources[1][i] + ..., of bf16 numbers, in float32; with `adds`, out[i] += that. `out` is
/// none of them.
void sum_bf16(float* out, std::span<const void* const> sources, std::int64_t num_elements, bool adds);

/// What sum_bf16 gives of float32 sources that are rounded first. `out` may be one of the sources.
void sum_rounded(float* out, std::span<const void* const> sources, std::int64_t num_elements, bool adds);

/// numbers[i] = numbers[i], rounded to the nearest bf16.
void round_in_place(float* numbers, std::int64_t num_elements);

}  // namespace sft::comm
