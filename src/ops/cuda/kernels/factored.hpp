// SPDX-License-Identifier: Apache-2.0
#pragma once
// Steps of Adafactor; see sft/ops/factored_moment.hpp.

#include "ops/cuda/kernels/view.hpp"
#include "ops/factored_arguments.hpp"

namespace sft::ops::cuda {

/// Device memory that these sums work in, whatever the shape.
inline constexpr std::size_t factored_scratch_bytes = std::size_t{8} << 20;

/// A matrix has at most factored_scratch_bytes / sizeof(double) columns.
void sum_squares_by_dim(const SquareSumsArguments& sums, Workspace workspace, cudaStream_t stream);
void update_factors(const MomentFactorsArguments& step, cudaStream_t stream);
void add_direction_squares(const FactoredArguments& step, Workspace workspace, cudaStream_t stream);
void update_factored(const FactoredArguments& step, cudaStream_t stream);

}  // namespace sft::ops::cuda
