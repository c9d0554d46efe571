// SPDX-License-Identifier: Apache-2.0
#pragma once
// How products of one kind run through cuBLASLt: what describes them, and the algorithm that they get.

#include <cublasLt.h>

#include <cstddef>
#include <string>
#include <vector>

#include "ops/cuda/cublaslt_objects.hpp"
#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

/// Addresses of our operands, and whether the product is added to c.
struct PlanOperands {
  const void *a, *b;
  void* c;
  bool accumulate;
};

/// Not thread-safe.
class CublasltPlan {
 public:
  /// Of c = op(a) op(b), our row-major matrices.
  CublasltPlan(bool transpose_a, bool transpose_b, const MatrixForm& a, const MatrixForm& b, const MatrixForm& c)
      : operation_(transpose_b, transpose_a), a_(a), b_(b), c_(c) {}

  /// What the library's heuristic proposes, best first, `most` at most, with the bias as part of the product or, where
  /// it is null, without one. Its status goes to `status`, if that is asked for.
  [[nodiscard]] std::vector<cublasLtMatmulHeuristicResult_t> propose(cublasLtHandle_t library,
                                                                     const Preference& preference, const void* bias,
                                                                     int most, cublasStatus_t* status = nullptr);

  void take(const cublasLtMatmulHeuristicResult_t& result, bool has_bias);

  /// Takes the algorithm that `text` names (see algorithm) if the library has it for the product, within the workspace.
  /// `bias`: what may be part of the product; null: nothing.
  [[nodiscard]] bool take_if_fits(cublasLtHandle_t library, const std::string& text, const void* bias,
                                  Workspace workspace);

  /// As part of the product.
  [[nodiscard]] bool adds_bias() const { return has_bias_; }
  /// What is taken, as MatmulAlgorithms has it: whether the bias is part of the product, and the numbers of the
  /// library.
  [[nodiscard]] std::string algorithm() const;

  /// Queues the product, with the bias that the operation has.
  void multiply(cublasLtHandle_t library, const PlanOperands& operands, Workspace workspace, cudaStream_t stream) const;

 protected:
  [[nodiscard]] Operation& operation() { return operation_; }

 private:
  Operation operation_;
  Layout a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_bytes_ = 0;
  bool has_bias_ = false;
};

}  // namespace sft::ops::cuda
