#pragma once
// Attention over rows that are cut over the sequence-parallel group.
//
// One interface for every way of doing it: a further `sp_method` is a class beside src/parallel/ring_attention.hpp, a
// schedule in sft/sequence/attention_schedule.hpp, and a line in make_sequence_attention.

#include <cstdint>
#include <memory>

#include "sft/comm/collectives.hpp"
#include "sft/comm/group.hpp"
#include "sft/device/arena.hpp"
#include "sft/device/device.hpp"
#include "sft/ops/backend.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::parallel {

/// Causal attention within documents. Shapes: T tokens, H query heads, K key/value heads, D head dim, all local.
/// Collective over the sp group, but for lay_out and set_schedule.
class SequenceAttention {
 public:
  struct Shape {
    std::int64_t tokens, q_heads, kv_heads, head_dim;
    DType compute;
  };

  virtual ~SequenceAttention() = default;

  /// Takes the buffers of this method from `arena`; call with a sizing arena, then with a real one.
  virtual void lay_out(device::Arena& arena) = 0;
  /// Sets what the tokens that follow attend to: once a micro-batch, before its first forward pass. `schedule` is read
  /// before the call returns.
  virtual void set_schedule(const sequence::AttentionSchedule& schedule) = 0;

  /// out (T, H, D) float32 and lse (T, H) float32 = attention of q (T, H, D) to the group's keys and values;
  /// kv (2, T, K, D): this rank's keys, then values. Tokens outside every document get 0 and -inf.
  virtual void forward(Tensor q, Tensor kv, Tensor out, Tensor lse) = 0;
  /// dq (T, H, D), dkv (2, T, K, D), float32, are overwritten. dout (T, H, D); lse, delta (T, H).
  virtual void backward(Tensor q, Tensor kv, Tensor dout, Tensor lse, Tensor delta, Tensor dq, Tensor dkv) = 0;
};

/// The one place that chooses. `ring_stream` carries the exchange beside the backend's stream; all references outlive
/// the result.
[[nodiscard]] std::unique_ptr<SequenceAttention> make_sequence_attention(const SequenceAttention::Shape& shape,
                                                                         const comm::Group& sp, device::Device& device,
                                                                         ops::Backend& backend,
                                                                         comm::Collectives& collectives,
                                                                         device::Stream& ring_stream);

}  // namespace sft::parallel
