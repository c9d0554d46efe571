// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which graph of cuDNN a call of attention asks for: by its tensors and the sizes of its documents alone, so that a
// run's graphs are known before there is a GPU. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/cuda/cudnn/documents.hpp"
#include "ops/cuda/cudnn/graph.hpp"
#include "sft/ops/backend.hpp"

namespace sft::ops::cuda::cudnn {

// Nothing where cuDNN of this `version` (Version::number) does not do the call.

[[nodiscard]] std::optional<GraphShape> forward_shape(const AttentionForward& attention, const DocumentSizes& documents,
                                                      std::size_t version);
/// Of a call that merges, over rectangles.
[[nodiscard]] std::optional<GraphShape> merge_shape(const AttentionForward& attention, std::size_t version);
/// Of gradients of keys and values, and of tails and of float32 sums those of queries, in rows one behind the other,
/// wherever the call wants them. in_order: as GraphShape::in_order.
[[nodiscard]] std::optional<GraphShape> backward_shape(const AttentionBackward& attention,
                                                       const DocumentSizes& documents, std::size_t version,
                                                       bool in_order);
/// Of a call that adds to sums of gradients of queries, over rectangles: all gradients in rows one behind the other.
[[nodiscard]] std::optional<GraphShape> rectangles_backward_shape(const AttentionBackward& attention,
                                                                  std::size_t version, bool in_order);

/// Whether the gradients are float32 sums, to which those of other keys can be added.
[[nodiscard]] bool are_sums(const AttentionBackward& attention);

/// Whether every head begins at a multiple of 16 bytes.
[[nodiscard]] bool is_aligned(const ConstTensor& heads);

/// Documents that calls will come of.
class ExpectedDocuments {
 public:
  void add(const DocumentSizes& sizes);
  [[nodiscard]] bool empty() const { return sizes_.empty(); }
  /// `shape`, and those of the same tensors for all documents that are expected, each once.
  [[nodiscard]] std::vector<GraphShape> shapes_like(const GraphShape& shape) const;

 private:
  std::vector<DocumentSizes> sizes_;
};

}  // namespace sft::ops::cuda::cudnn
