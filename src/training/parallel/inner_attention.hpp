// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention that another method can run on tokens and heads that it has put together (ulysses_attention.hpp): its
// backward pass works from delta, so that the output need not be put together again unless a library reads it.

#include "sft/parallel/sequence_attention.hpp"

namespace sft::parallel {

class InnerAttention : public SequenceAttention {
 public:
  /// (T, H) float32, contiguous, for the tokens of the schedules: the memory for the sum over D of out * dout.
  [[nodiscard]] virtual Tensor delta() const = 0;
  /// The rest of backward(), once delta() is written; `out` may be empty. The gradients of keys and values have the
  /// compute dtype, or both are float32.
  void backward_from_delta(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse, Tensor dout,
                           const Heads& gradients) {
    if (!gradients.sinks.empty()) {
      backend_.run(
          ops::AttentionSinksBackward{.dsinks = gradients.sinks, .sinks = heads.sinks, .lse = lse, .delta = delta()});
    }
    backward_over_keys(kind, heads, out, lse, dout, gradients);
  }

  void backward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse, Tensor dout,
                const Heads& gradients) final {
    backend_.run(ops::AttentionDelta{delta(), out, dout});
    backward_from_delta(kind, heads, out, lse, dout, gradients);
  }

 protected:
  explicit InnerAttention(ops::Backend& backend) : backend_(backend) {}

  /// The gradients of queries, keys and values. out: empty where it is not at hand.
  virtual void backward_over_keys(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse, Tensor dout,
                                  const Heads& gradients) = 0;

  ops::Backend& backend_;
};

class InnerBuffers : public SequenceBuffers {
 public:
  [[nodiscard]] virtual std::unique_ptr<InnerAttention> make_inner(const comm::Group& sp, device::Device& device,
                                                                   ops::Backend& backend,
                                                                   comm::Collectives& collectives,
                                                                   device::Stream& ring_stream) const = 0;

  [[nodiscard]] std::unique_ptr<SequenceAttention> make_attention(const comm::Group& sp, device::Device& device,
                                                                  ops::Backend& backend, comm::Collectives& collectives,
                                                                  device::Stream& ring_stream) const final {
    return make_inner(sp, device, backend, collectives, ring_stream);
  }
};

/// Attention over rows that `sp_size` ranks share without exchanging heads: local, or a ring. Pure.
[[nodiscard]] std::unique_ptr<InnerBuffers> make_inner_buffers(const SequenceShape& shape, int sp_size);

}  // namespace sft::parallel
