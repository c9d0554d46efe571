// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums over many elements, in two stages and always in the same order: partial sums of pieces that follow from the
// shape alone, then their sum.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

/// Device memory that sum_squares works in.
inline constexpr std::size_t sum_squares_bytes = 1024 * sizeof(double);
/// result += the sum of x^2, in float64.
void sum_squares(double* result, const float* x, std::int64_t size, Workspace workspace, cudaStream_t stream);

/// sums (columns) += the rows of partials (num_rows, columns), float32.
void add_rows(float* sums, const float* partials, std::int64_t num_rows, std::int64_t columns, cudaStream_t stream);

/// Device memory that column_sums works in.
[[nodiscard]] std::size_t column_sums_bytes(std::int64_t rows, std::int64_t columns);
/// sums (columns) += the column sums of x, in float32.
void column_sums(float* sums, ConstView x, Workspace workspace, cudaStream_t stream);

}  // namespace sft::ops::cuda
