#pragma once
// Attention over rows that are cut over the sequence-parallel group.
//
// One interface for every way of doing it: a further `sp_method` is a class beside src/parallel/ring_attention.hpp, a
// schedule beside sequence::schedule_ring, and a line in make_sequence_attention.

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

/// Causal attention within documents. Shapes: T tokens, H query heads, K key/value heads, D head dim, all local.
/// Collective over the sp group, but for lay_out, workspace_needs and set_schedule.
class SequenceAttention {
 public:
  struct Shape {
    std::int64_t tokens;      ///< T, of all rows
    std::int64_t row_tokens;  ///< of one row on this rank
    std::int64_t q_heads, kv_heads, head_dim;
    DType compute;

    /// Of the scores: 1 / sqrt(D).
    [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(head_dim)); }
  };
  /// Rotated queries and keys, and values, of this rank, or their gradients; compute dtype, strided: they may be
  /// columns of one fused tensor.
  struct Heads {
    Tensor q, k, v;  ///< (T, H, D), (T, K, D), (T, K, D)
  };

  virtual ~SequenceAttention() = default;

  /// Takes the buffers of this method from `arena`; call with a sizing arena, then with a real one.
  virtual void lay_out(device::Arena& arena) = 0;
  /// What its calls of the backend need beside that: for ops::workspace_bytes.
  [[nodiscard]] virtual ops::WorkspaceNeeds workspace_needs() const = 0;
  /// Sets what the tokens that follow attend to: once a micro-batch, before its first forward pass. `schedule` is read
  /// before the call returns.
  virtual void set_schedule(const sequence::AttentionSchedule& schedule) = 0;

  /// out (T, H, D) compute dtype and lse (T, H) float32, both contiguous, = attention of this rank's queries to the
  /// group's keys and values. Tokens outside every document get 0 and -inf.
  virtual void forward(const Heads& heads, Tensor out, Tensor lse) = 0;
  /// Overwrites `gradients`, which share no memory with the rest: 0 outside every document. out and lse as the forward
  /// pass left them; dout (T, H, D) compute dtype, contiguous.
  virtual void backward(const Heads& heads, Tensor out, Tensor lse, Tensor dout, const Heads& gradients) = 0;
};

/// The one place that chooses: rows that lie whole on one rank need no exchange. `ring_stream` carries the exchange
/// beside the backend's stream; all references outlive the result.
[[nodiscard]] std::unique_ptr<SequenceAttention> make_sequence_attention(const SequenceAttention::Shape& shape,
                                                                         const comm::Group& sp, device::Device& device,
                                                                         ops::Backend& backend,
                                                                         comm::Collectives& collectives,
                                                                         device::Stream& ring_stream);

}  // namespace sft::parallel
