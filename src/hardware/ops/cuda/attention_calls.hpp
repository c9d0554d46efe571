// SPDX-License-Identifier: Apache-2.0
#pragma once
// The attention kernels of GPUs, and what they are called with. For host code and for nvcc.

#include <cuda_runtime.h>

#include <cstdint>

#include "ops/cuda/attention_tiles.hpp"
#include "ops/cuda/kernels/view.hpp"

namespace sft {
template <class Memory>
struct BasicTensor;
}  // namespace sft

namespace sft::ops::cuda {

inline constexpr float log2_of_e = 1.44269504088896341F;

/// One side of an attention plan in device memory: tiles that cover all rows of the side once, those with most work
/// first, and the ranges they name.
struct AttentionSide {
  const AttentionTile* tiles;
  const AttentionRange* ranges;
  std::int32_t num_tiles;
  std::int32_t window;  ///< of all ranges; 0: none, and each is a causal square (diagonal 0) or has no border
};

/// Rows of heads, (rows, heads, D): neighbouring rows are row_stride elements apart, heads of a row stand one after the
/// other.
template <class Memory>
struct BasicHeadRows {
  Memory* data;
  std::int64_t row_stride;
  bool is_bf16;    ///< else float32
  bool is_vector;  ///< every head of every row begins at a multiple of 16 bytes and is one long
};
using HeadRows = BasicHeadRows<void>;
using ConstHeadRows = BasicHeadRows<const void>;  ///< are only read

/// Views a tensor (rows, heads, D) of float32 or bf16; std::logic_error for others.
template <class Memory>
[[nodiscard]] BasicHeadRows<Memory> head_rows(const BasicTensor<Memory>& x);

/// What ops::AttentionForward says, for kernels; q, k and v are of one dtype.
struct AttentionForwardCall {
  ConstHeadRows q, k, v;
  HeadRows out;
  float* lse;
  AttentionSide queries;
  std::int32_t num_heads, num_kv_heads, head_dim;
  std::int32_t heads_at_once;  ///< query heads whose keys and values stay in the L2 cache together
  float scale;
  float softcap;  ///< 0: none
  bool merges;
  Weight sinks;  ///< (num_heads), without data: none
};

/// What ops::AttentionBackward says, for kernels; q, k, v and dout are of one dtype.
struct AttentionBackwardCall {
  ConstHeadRows q, k, v, dout;
  const float *lse, *delta;
  HeadRows dq, dk, dv;
  AttentionSide queries, keys;
  std::int32_t num_heads, num_kv_heads, head_dim;
  std::int32_t heads_at_once;  ///< as above
  float scale;
  float softcap;  ///< 0: none
  /// exp(score) = 2^(exponent_of_score product), or with a softcap 2^(exponent_of_score share), share = tanh(scale
  /// product / softcap) and e^(2 scale product / softcap) = 2^(exponent_of_share product). A kernel multiplies by its
  /// arguments without a register.
  float exponent_of_score, exponent_of_share;
  bool adds_to_dq, adds_to_dkv;
};

/// Adds what a call over other keys gave to (num_tokens, num_heads, D) float32 results and their log-sum-exp
/// (num_tokens, num_heads), both weighed by their sums (Dao 2023). `part` and `part_lse` are contiguous, of as many
/// rows, each of which sees a key.
void attention_merge(const HeadRows& out, float* lse, const float* part, const float* part_lse, std::int64_t num_tokens,
                     int num_heads, int head_dim, cudaStream_t stream);

// Attention of float32 tensors in float32 arithmetic.

/// Head dims are at most 256. Outputs are float32.
void attention_forward_float32(const AttentionForwardCall& call, cudaStream_t stream);
void attention_backward_float32(const AttentionBackwardCall& call, cudaStream_t stream);

// Attention of bf16 tensors with the warp-wide matrix instructions of compute capability 8.0, which all later GPUs
// have.

/// Head dims are even and at most 256; 64 and 128 are fast.
void attention_forward_sm80(const AttentionForwardCall& call, cudaStream_t stream);
void attention_backward_sm80(const AttentionBackwardCall& call, cudaStream_t stream);

// Attention of bf16 tensors for GPUs of one compute capability: 90 is 9.0. Their sources specialize these; there is no
// softcap.

template <int compute_capability>
void attention_forward_of(const AttentionForwardCall& call, cudaStream_t stream);
template <int compute_capability>
void attention_backward_of(const AttentionBackwardCall& call, cudaStream_t stream);

}  // namespace sft::ops::cuda
