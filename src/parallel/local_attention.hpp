// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention where every rank holds whole rows: nothing to exchange, no partial result to merge.

#include "sft/parallel/sequence_attention.hpp"

namespace sft::parallel {

class LocalBuffers final : public SequenceBuffers {
 public:
  explicit LocalBuffers(const SequenceShape& of) : shape(of) {}

  void lay_out(device::Arena& arena) override;
  [[nodiscard]] ops::AttentionNeeds attention_needs() const override;
  [[nodiscard]] std::unique_ptr<SequenceAttention> make_attention(const comm::Group& sp, device::Device& device,
                                                                  ops::Backend& backend, comm::Collectives& collectives,
                                                                  device::Stream& ring_stream) const override;

  SequenceShape shape;
  Tensor delta;  ///< (T, H) float32
};

class LocalAttention final : public SequenceAttention {
 public:
  LocalAttention(const LocalBuffers& buffers, ops::Backend& backend) : buffers_(buffers), backend_(backend) {}

  void set_schedule(const sequence::AttentionSchedule& schedule) override;
  void forward(const Heads& heads, Tensor out, Tensor lse) override;
  void backward(const Heads& heads, Tensor out, Tensor lse, Tensor dout, const Heads& gradients) override;

 private:
  const LocalBuffers& buffers_;
  ops::Backend& backend_;
  std::unique_ptr<ops::AttentionPlan> plan_;
};

}  // namespace sft::parallel
