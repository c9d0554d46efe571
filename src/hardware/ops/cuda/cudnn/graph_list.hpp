// SPDX-License-Identifier: Apache-2.0
#pragma once
// The graphs of cuDNN that a model's attention asks for, without computing any.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "ops/cuda/cudnn/shapes.hpp"
#include "sft/ops/null_backend.hpp"

namespace sft::ops::cuda::cudnn {

/// Computes nothing, over the addresses of sizing arenas; plans as the CUDA backend does with cuDNN of this version.
class GraphList final : public NullBackend {
 public:
  /// in_order: as GraphShape::in_order.
  GraphList(device::Stream& stream, std::size_t version, bool in_order)
      : NullBackend(stream), version_(version), in_order_(in_order) {}

  [[nodiscard]] std::unique_ptr<AttentionPlan> plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                              std::int64_t num_queries, std::int64_t num_keys) override;
  void expect_attention(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries,
                        std::int64_t num_keys) override;
  void run(const Call& call) override;

  /// Of the calls so far, each once, for all documents that are expected.
  [[nodiscard]] std::vector<GraphShape> shapes() const;

 private:
  void list(const AttentionForward& attention);
  void list(const AttentionBackward& attention);
  void note(const std::optional<GraphShape>& shape);

  std::size_t version_;
  bool in_order_;
  ExpectedDocuments expected_;
  std::vector<GraphShape> called_;
};

}  // namespace sft::ops::cuda::cudnn
