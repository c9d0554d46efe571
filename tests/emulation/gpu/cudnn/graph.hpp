// SPDX-License-Identifier: Apache-2.0
#pragma once
// The graph of operations that a plan of cuDNN runs.

#include <cudnn.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "descriptor.hpp"

namespace sft::emulation {

/// A tensor of rank 4.
struct GraphTensor {
  std::int64_t uid = 0;
  std::vector<std::int64_t> dims, strides;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool is_virtual = false;       ///< lives within the graph alone
  bool is_by_value = false;      ///< a number in host memory
  std::int64_t alignment = 1;    ///< bytes
  std::int64_t offsets_uid = 0;  ///< of the ragged offsets; 0: dense
  /// By how much offsets are multiplied. cuDNN says nothing of it where heads are summed by groups: offsets of the sum
  /// are given for the summands too, whose rows are as much longer as their heads are more.
  std::int64_t offsets_factor = 1;
};

struct GraphOperation {
  enum class Kind { matmul, pointwise, reduction, reshape };
  Kind kind;
  int mode = 0;  ///< of pointwise operations and reductions
  std::int64_t axis = -1;
  /// Of the tensors; 0: none. Matmul: a, b and how many rows, columns and summands count. Pointwise: x, b, t.
  std::vector<std::int64_t> inputs;
  std::int64_t output = 0;
};

struct OperationGraph {
  std::map<std::int64_t, GraphTensor> tensors;
  std::vector<GraphOperation> operations;  ///< in an order in which they can run
  std::map<int, std::int64_t> knobs;       ///< of the engine that was chosen

  [[nodiscard]] bool is_backward() const;
  /// Whether each execution adds up in the same order: not in a backward pass of which that was not asked.
  [[nodiscard]] bool sums_in_order() const;
};

/// Of a finalized CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR; throws std::runtime_error with what is not emulated.
[[nodiscard]] OperationGraph graph_of(const Descriptor& descriptor);

/// What the real library's engines refuse, as far as it is known: says why; empty: nothing.
[[nodiscard]] std::string unsupported(const OperationGraph& graph);

/// Bytes that a plan of the graph works with.
[[nodiscard]] std::int64_t workspace_bytes(const OperationGraph& graph);

[[nodiscard]] std::string to_json(const OperationGraph& graph);
/// Throws where the text is no such graph.
[[nodiscard]] OperationGraph from_json(const std::string& text);

}  // namespace sft::emulation
