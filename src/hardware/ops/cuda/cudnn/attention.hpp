// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention of the CUDA backend by cuDNN where that can, and where it cannot by the kernels of this program.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/cuda/attention_plan.hpp"
#include "ops/cuda/cudnn/documents.hpp"
#include "ops/cuda/cudnn/graph.hpp"
#include "ops/cuda/cudnn/graph_set.hpp"
#include "ops/cuda/cudnn/rectangles.hpp"
#include "ops/cuda/cudnn/shapes.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::ops::cuda::cudnn {

/// Keeps a compiled graph for every shape that was asked for. Not thread-safe.
class Attention {
 public:
  /// `pool` outlives it: a call's working memory is taken from there. Throws Refusal where cuDNN cannot be used.
  /// in_order: whether gradients are to have the same bits each time.
  Attention(PlanPool& pool, cudaStream_t stream, bool in_order)
      : pool_(pool), stream_(stream), in_order_(in_order), library_(stream) {}

  /// Calls will come of such documents: the first call compiles what it asks for for all that are expected.
  void expect(const DocumentSizes& documents) { expected_.add(documents); }
  /// Queues the call, of `documents` alone, and returns true; false, and nothing is queued, where cuDNN does not do it.
  [[nodiscard]] bool forward(const AttentionForward& attention, const Documents& documents);
  /// The same. Wants the output of the forward pass, and does not read delta. What tails add to the gradients of keys
  /// and values is rounded to bf16 before it is added up in float32.
  [[nodiscard]] bool backward(const AttentionBackward& attention, const Documents& documents);

  /// Queues the forward pass over the rectangles and returns true: a call that merges, of these alone. False, and
  /// nothing is queued, where cuDNN does not do it.
  [[nodiscard]] bool merge(const AttentionForward& attention, Rectangles& rectangles);
  /// The same of the backward pass: a call that accumulates gradients of queries. Each piece's gradients are rounded to
  /// bf16 before they are added up in float32.
  [[nodiscard]] bool add_gradients(const AttentionBackward& attention, Rectangles& rectangles);

  /// That are launched: those of chains which are repeated do not count.
  [[nodiscard]] const LibraryCalls& calls() const { return calls_; }
  /// Of tensors that calls have come with.
  [[nodiscard]] RowLengths& rows() { return rows_; }

 private:
  /// The graph of this shape: compiled before, stored by an earlier run, or compiled now, with those of all expected
  /// documents. Null where the library refuses it.
  const Graph* graph_of(const GraphShape& shape);
  void add_graphs(const std::vector<GraphShape>& shapes);
  /// The graph of these bytes or, where they are none of this library, compiled here. Null where it was or is refused.
  [[nodiscard]] std::unique_ptr<Graph> load(const GraphShape& shape, CompiledGraph& compiled);
  /// For one call; null where so much was not planned: says once that this program's kernels do what cuDNN could.
  [[nodiscard]] std::byte* working_place(std::size_t bytes);
  void fill_outside(const Tensor& x, const Documents& documents, float value) const;

  PlanPool& pool_;
  cudaStream_t stream_;
  bool in_order_;
  Library library_;
  ExpectedDocuments expected_;
  std::unordered_map<std::string, std::unique_ptr<Graph>> graphs_;  ///< by name of the shape
  RowLengths rows_;
  LibraryCalls calls_;
  bool has_said_short_ = false;
};

}  // namespace sft::ops::cuda::cudnn
