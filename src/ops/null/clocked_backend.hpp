// SPDX-License-Identifier: Apache-2.0
#pragma once
// A backend that computes nothing, and moves the clock of its stream on by the time that each op would take: the larger
// of its floating-point operations by the rate of products or of attention, and of the bytes that it reads and writes
// by that of the memory.

#include "sft/device/clocked_device.hpp"
#include "sft/ops/null_backend.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::ops::null {

class ClockedBackend final : public NullBackend {
 public:
  /// `device` and `stream`, one of its own, outlive it.
  ClockedBackend(const device::ClockedDevice& device, device::Stream& stream, AttentionKernels attention)
      : NullBackend(stream),
        rates_(device.rates()),
        clock_(device::clocked(stream)),
        is_of_library_(is_of_library(attention)) {}

  void run(const Call& call) override;
  [[nodiscard]] std::unique_ptr<AttentionPlan> plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                              std::int64_t num_queries, std::int64_t num_keys) override;

 private:
  using Form = device::ProductForm;

  /// An op that passes over its tensors once.
  template <class Op>
  void execute(const Op& op);
  void execute(const EmbeddingForward& op);
  void execute(const EmbeddingBackward& op);
  void execute(const GatherTokens& op);
  void execute(const ReadFourBits& op);
  void execute(const Matmul& op);
  void execute(const Fp8Matmul& op);
  void execute(const GroupedMatmul& op);
  void execute(const GroupedWeightGradient& op);
  void execute(const AttentionForward& op);
  void execute(const AttentionBackward& op);

  void pass_over(device::Pass pass, double num_bytes);
  /// `count` products of one size: m, n and k are those of each.
  void multiply(Form form, double count, std::int64_t m, std::int64_t n, std::int64_t k, double num_bytes);

  const device::Rates& rates_;
  device::ClockedStream& clock_;
  const bool is_of_library_;  ///< attention: of a library only calls over documents alone are repeated
};

/// Pairs of a query and a key that it sees. Pure.
[[nodiscard]] double num_visible_pairs(const std::vector<sequence::AttentionSpan>& spans);

}  // namespace sft::ops::null
