// SPDX-License-Identifier: Apache-2.0
#pragma once
// A backend that computes nothing, and moves the clock of its stream on by the time that each op would take: the larger
// of its floating-point operations by the rate of products or of attention, and of the bytes that it reads and writes
// by that of the memory.

#include "sft/ops/null_backend.hpp"
#include "sft/ops/shapes.hpp"
#include "sft/simulator/clocked_device.hpp"

namespace sft::simulator {

class ClockedBackend final : public ops::NullBackend {
 public:
  /// `device` and `stream`, one of its own, outlive it.
  ClockedBackend(const ClockedDevice& device, device::Stream& stream,
                 ops::AttentionKernels attention = ops::AttentionKernels::own)
      : ops::NullBackend(stream),
        rates_(device.rates()),
        clock_(clocked(stream)),
        is_of_library_(ops::is_of_library(attention)) {}

  void run(const ops::Call& call) override;
  [[nodiscard]] std::unique_ptr<ops::AttentionPlan> plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                                   std::int64_t num_queries,
                                                                   std::int64_t num_keys) override;

 private:
  using Form = ProductForm;

  /// An op that passes over its tensors once.
  template <class Op>
  void execute(const Op& op);
  void execute(const ops::EmbeddingForward& op);
  void execute(const ops::EmbeddingBackward& op);
  void execute(const ops::GatherTokens& op);
  void execute(const ops::ReadFourBits& op);
  void execute(const ops::Matmul& op);
  void execute(const ops::Fp8Matmul& op);
  void execute(const ops::GroupedMatmul& op);
  void execute(const ops::GroupedWeightGradient& op);
  void execute(const ops::AttentionForward& op);
  void execute(const ops::AttentionBackward& op);

  void pass_over(ops::Pass pass, double num_bytes);
  /// `count` products of one size: m, n and k are those of each.
  void multiply(Form form, double count, std::int64_t m, std::int64_t n, std::int64_t k, double num_bytes);

  const Rates& rates_;
  ClockedStream& clock_;
  const bool is_of_library_;  ///< attention: of a library only calls over documents alone are repeated
};

/// Pairs of a query and a key that it sees. Pure.
[[nodiscard]] double num_visible_pairs(const std::vector<sequence::AttentionSpan>& spans);

}  // namespace sft::simulator
