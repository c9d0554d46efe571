// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention over rows that are cut over the sequence-parallel group.
//
// One interface for every way of doing it: a further `sp_method` is a class of buffers and a class of attention beside
// src/training/parallel/ring_attention.hpp, a schedule beside sequence::schedule_ring, and a line in
// make_sequence_buffers. A micro-batch is one row: the documents of all its rows, one after the other. It has a
// schedule for each kind of attention of the model's layers; all kinds work in the same buffers.

#include <cmath>
#include <cstdint>
#include <memory>

#include "sft/comm/collectives.hpp"
#include "sft/comm/group.hpp"
#include "sft/device/arena.hpp"
#include "sft/device/device.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/factory.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::parallel {

/// Shapes: T tokens, H query heads, K key/value heads, D head dim, all local. T differs from one micro-batch to the
/// next; buffers are laid out for the most tokens.
struct SequenceShape {
  std::int64_t tokens;           ///< T, at most
  std::int64_t document_tokens;  ///< tokens of one document, on all ranks together, at most
  std::int64_t q_heads, kv_heads, head_dim;
  DType compute;
  /// Elements between rows of gradients of q; 0: as in a fused product of q, k and v.
  std::int64_t gradient_row = 0;
  float multiplier = 0.0F;                                     ///< what scores are multiplied by; 0: 1 / sqrt(D)
  float softcap = 0.0F;                                        ///< of the scores (ops::AttentionForward); 0: none
  int num_kinds = 1;                                           ///< of attention that the layers have
  ops::AttentionKernels kernels = ops::AttentionKernels::own;  ///< whose attention GPUs run

  /// Whether a library computes the backward pass, too, of what it is given the output of.
  [[nodiscard]] bool has_library_backward() const { return ops::has_backward_of_library(kernels); }

  [[nodiscard]] float scale() const {
    return multiplier != 0.0F ? multiplier : 1.0F / std::sqrt(static_cast<float>(head_dim));
  }
};

/// Causal attention within documents. Collective over the sp group, but for set_schedules.
class SequenceAttention {
 public:
  /// Rotated queries and keys, and values, of this rank, or their gradients; compute dtype, strided: they may be
  /// columns of one fused tensor.
  struct Heads {
    Tensor q, k, v;  ///< (T, H, D), (T, K, D), (T, K, D)
    /// (H), those of ops::AttentionForward, compute dtype or float32; empty: none. Their gradient is float32; empty:
    /// not asked for.
    Tensor sinks = {};
  };

  virtual ~SequenceAttention() = default;

  /// Sets what the tokens that follow attend to, and how many these are: once per micro-batch, before its forward pass.
  /// `schedules`, one for each kind of attention and all of the same tokens, are read before the call returns.
  virtual void set_schedules(const sequence::AttentionSchedules& schedules) = 0;

  /// For a layer whose attention is of this kind: out (T, H, D) compute dtype, strided, = attention of this rank's
  /// queries to the group's keys and values; 0 for tokens outside every document. lse (T, H) float32, contiguous: the
  /// log-sum-exp that the backward pass needs, of as many tokens and heads, where heads are exchanged of others than
  /// this rank's; -inf outside every document.
  virtual void forward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse) = 0;
  /// For the same layer: overwrites `gradients`, which share no memory with the rest: 0 outside every document. To that
  /// of the sinks it adds some queries' part: each query of the group counts for each head on one rank of sp alone. out
  /// and lse as the forward pass left them; dout (T, H, D) compute dtype, contiguous.
  virtual void backward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse, Tensor dout,
                        const Heads& gradients) = 0;
};

/// The memory of one method, and the method that works in it.
class SequenceBuffers {
 public:
  virtual ~SequenceBuffers() = default;

  /// Takes the buffers from `arena`; call with a sizing arena, then with a real one. Pure: planning needs no device.
  virtual void lay_out(device::Arena& arena) = 0;
  /// What its calls of the backend need beside that: for ops::workspace_bytes. Pure.
  [[nodiscard]] virtual ops::AttentionNeeds attention_needs() const = 0;

  /// The method at work in these buffers, once they are laid out. `ring_stream` carries the exchange beside the
  /// backend's stream; all references, and the buffers, outlive the result.
  [[nodiscard]] virtual std::unique_ptr<SequenceAttention> make_attention(const comm::Group& sp, device::Device& device,
                                                                          ops::Backend& backend,
                                                                          comm::Collectives& collectives,
                                                                          device::Stream& ring_stream) const = 0;
};

/// Tokens of the schedules of one micro-batch on this rank. Throws std::logic_error unless there is one for each kind
/// of attention, all of as many tokens.
[[nodiscard]] std::int64_t num_tokens_of(const sequence::AttentionSchedules& schedules, const SequenceShape& shape);

/// The one place that chooses the method: rows that lie whole on one rank need no exchange. Throws std::logic_error
/// where heads are exchanged unless ulysses_size divides both sp_size and H. Pure.
[[nodiscard]] std::unique_ptr<SequenceBuffers> make_sequence_buffers(const SequenceShape& shape, int sp_size,
                                                                     const sequence::AttentionMethod& method);

}  // namespace sft::parallel
