// SPDX-License-Identifier: Apache-2.0
#pragma once
// The sizes that a model calls the ops with on one rank: what scratch memory and chunks follow from, known from the
// configuration and a place on the mesh alone.

#include <cstdint>

#include "sft/core/dtype.hpp"

namespace sft::ops {

/// The sizes that ops are called with, by the legend of backend.hpp: T tokens of a micro-batch, C hidden, H query
/// heads, K key/value heads, D head dim, F MLP columns, V vocabulary rows, all of this rank; the dtype of activations
/// and gathered parameters.
struct Shapes {
  std::int64_t tokens = 0, hidden = 0, q_heads = 0, kv_heads = 0, head_dim = 0, mlp = 0, vocab = 0;
  DType compute = DType::float32;
};

/// Whose attention a GPU runs: this program's kernels for all GPUs; its kernels for GPUs of compute capability 9.0
/// where they can: bf16, head dims up to 128, without caps; or cuDNN's where it can: bf16, whole documents that are
/// packed one behind the other, with windows or without, without caps; forward without sinks. cudnn_forward: its
/// forward pass alone. cudnn_unordered: both, gradients summed in any order, so that their last bits differ from one
/// time to the next.
enum class AttentionKernels { own, hopper, cudnn_forward, cudnn, cudnn_unordered };
[[nodiscard]] constexpr bool is_of_library(AttentionKernels kernels) {
  return kernels == AttentionKernels::cudnn_forward || kernels == AttentionKernels::cudnn ||
         kernels == AttentionKernels::cudnn_unordered;
}
/// Whether that library computes the backward pass, too, where it can.
[[nodiscard]] constexpr bool has_backward_of_library(AttentionKernels kernels) {
  return kernels == AttentionKernels::cudnn || kernels == AttentionKernels::cudnn_unordered;
}
/// Whether a library's backward pass of heads of D numbers works in memory that grows with the tokens. That of others
/// grows with the documents times the longest of them, whatever tokens there are: no plan has room for it.
[[nodiscard]] constexpr bool bounds_backward_of_library(std::int64_t head_dim) { return head_dim % 16 == 0; }
/// What `kernels` come to for a model with heads of D numbers, with sinks or without: a library's forward pass does not
/// take these, its backward pass has all that it needs of them in the log-sum-exp.
[[nodiscard]] constexpr AttentionKernels kernels_of_model(AttentionKernels kernels, std::int64_t head_dim,
                                                          bool has_sinks) {
  const bool is_forward = kernels == AttentionKernels::cudnn_forward ||
                          (has_backward_of_library(kernels) && !bounds_backward_of_library(head_dim));
  if (!is_forward) return kernels;
  return has_sinks ? AttentionKernels::own : AttentionKernels::cudnn_forward;
}

/// Whether gradients have the same bits each time.
[[nodiscard]] constexpr bool sums_in_order(AttentionKernels kernels) {
  return kernels != AttentionKernels::cudnn_unordered;
}

/// What the attention of a model needs beside the shapes.
struct AttentionNeeds {
  // The largest calls of attention_backward that write dk and dv in bf16 rather than float32: their sums may need
  // scratch memory. None by default.
  std::int64_t num_keys = 0;      ///< Tk; 0: there is no such call
  std::int64_t longest_lane = 0;  ///< most keys of a lane
  std::int64_t num_kv_heads = 0, head_dim = 0;

  /// The largest calls that a library of attention may get (AttentionKernels).
  struct Library {
    std::int64_t tokens = 0;      ///< T; 0: there is no such call
    std::int64_t key_tokens = 0;  ///< Tk of keys that are gathered; 0: Tk = T
    std::int64_t q_heads = 0, kv_heads = 0, head_dim = 0;
    std::int64_t dq_row = 0;    ///< elements between rows of dq; 0: as in a fused product of these heads
    bool has_backward = false;  ///< the backward pass too: it is given the output of the forward pass
    bool merges = false;        ///< further keys, whose results are merged and gradients added up
  };
  Library library = {};

  // Attention plans of one micro-batch, which may live in scratch memory.
  std::int64_t num_kinds = 1;                    ///< of attention
  std::int64_t num_plans = 1;                    ///< of each kind, for queries and keys that are all there once
  std::int64_t plan_queries = 0, plan_keys = 0;  ///< T and Tk of each, at most; 0: Shapes::tokens
  bool repeats = false;                          ///< as Backend::set_attention_repeats
};

}  // namespace sft::ops
