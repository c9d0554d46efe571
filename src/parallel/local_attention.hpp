#pragma once
// Attention where every rank holds whole rows: nothing to exchange, no partial result to merge.

#include "sft/parallel/sequence_attention.hpp"

namespace sft::parallel {

class LocalAttention final : public SequenceAttention {
 public:
  LocalAttention(const Shape& shape, ops::Backend& backend) : shape_(shape), backend_(backend) {}

  void lay_out(device::Arena& arena) override;
  [[nodiscard]] ops::WorkspaceNeeds workspace_needs() const override;
  void set_schedule(const sequence::AttentionSchedule& schedule) override;
  void forward(const Heads& heads, Tensor out, Tensor lse) override;
  void backward(const Heads& heads, Tensor out, Tensor lse, Tensor dout, const Heads& gradients) override;

 private:
  Shape shape_;
  ops::Backend& backend_;
  std::unique_ptr<ops::AttentionPlan> plan_;
  Tensor delta_;  ///< (T, H) float32
};

}  // namespace sft::parallel
