// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rotary embedding (Su et al. 2021) in the half-split layout, alone and after RMSNorm of every head (Qwen3); see
// ops::Backend. Rows are tokens, columns n heads of `head_dim`, which is even; tables are (T, head_dim / 2).

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

void rope_table(float* cosine, float* sine, const std::int32_t* positions, const double* inverse_frequencies,
                std::int64_t num_positions, std::int64_t half_dim, float scale, cudaStream_t stream);

/// Turns by +angle, with direction -1 back. out may be in.
void rope(View out, ConstView in, const float* cosine, const float* sine, std::int64_t head_dim, float direction,
          cudaStream_t stream);

/// head_dim of at most 256, here and below. rstd (T, n).
void norm_rope_forward(View out, float* rstd, ConstView in, Weight weight, const float* cosine, const float* sine,
                       std::int64_t head_dim, float epsilon, cudaStream_t stream);

/// Rows of partial sums, of head_dim float32 each, that norm_rope_backward leaves for `num_heads` heads of all tokens.
[[nodiscard]] std::int64_t norm_rope_backward_partials(std::int64_t num_heads);
/// din may be dout. The column sums of `partials` are the gradient of the weight; null: not asked for.
void norm_rope_backward(View din, float* partials, ConstView dout, ConstView in, const float* rstd, Weight weight,
                        const float* cosine, const float* sine, std::int64_t head_dim, cudaStream_t stream);

}  // namespace sft::ops::cuda
