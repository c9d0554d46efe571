// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention where every rank holds whole rows: nothing to exchange, no partial result to merge.

#include "parallel/inner_attention.hpp"

namespace sft::parallel {

class LocalBuffers final : public InnerBuffers {
 public:
  explicit LocalBuffers(const SequenceShape& of) : shape(of) {}

  void lay_out(device::Arena& arena) override;
  [[nodiscard]] ops::AttentionNeeds attention_needs() const override;
  [[nodiscard]] std::unique_ptr<InnerAttention> make_inner(const comm::Group& sp, device::Device& device,
                                                           ops::Backend& backend, comm::Collectives& collectives,
                                                           device::Stream& ring_stream) const override;

  SequenceShape shape;
  Tensor delta;  ///< (T, H) float32
};

class LocalAttention final : public InnerAttention {
 public:
  LocalAttention(const LocalBuffers& buffers, ops::Backend& backend) : InnerAttention(backend), buffers_(buffers) {}

  void set_schedules(const sequence::AttentionSchedules& schedules) override;
  void forward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse) override;
  [[nodiscard]] Tensor delta() const override { return buffers_.delta.rows(0, num_tokens_); }

 private:
  void backward_over_keys(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse, Tensor dout,
                          const Heads& gradients) override;

  const LocalBuffers& buffers_;
  std::int64_t num_tokens_ = 0;  ///< of the schedules
  IndexedVector<sequence::AttentionKind, std::unique_ptr<ops::AttentionPlan>> plans_;
};

}  // namespace sft::parallel
