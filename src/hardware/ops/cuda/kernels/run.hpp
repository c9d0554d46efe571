// SPDX-License-Identifier: Apache-2.0
#pragma once
// The functions of kernels/, each of which queues an op on a stream. For host code and for nvcc.

#include "ops/cuda/kernels/view.hpp"
#include "ops/views/tensor.hpp"

namespace sft::ops::cuda {

/// Where an op runs.
struct Context {
  cudaStream_t stream;
  Workspace workspace;

  /// Scratch memory for an op that needs `num_bytes`; std::logic_error where there is less.
  [[nodiscard]] Workspace scratch(std::size_t num_bytes) const {
    ensure(workspace.data != nullptr, "ops: set_workspace first");
    ensure(num_bytes <= workspace.num_bytes, "ops: the workspace holds a row");
    return workspace;
  }
};

/// Queues the op. The source of a kernel specializes it.
template <class Op>
void run(const Op& op, const Context& context);

}  // namespace sft::ops::cuda
