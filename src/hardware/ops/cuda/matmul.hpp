// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrix products through cuBLASLt, with float32 sums.

#include <cublasLt.h>

#include <memory>
#include <unordered_map>

#include "ops/cuda/kernels/view.hpp"
#include "ops/cuda/product_timing.hpp"
#include "ops/product_blocks.hpp"
#include "ops/product_key.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/matmul_algorithms.hpp"

namespace sft::ops::cuda {

/// Runs products on one stream, keeping for each shape the algorithm that a list has for it, or that the library's
/// heuristic puts first. run times nothing, and sums that are split are added up in float32 in one order: the same
/// product gives the same bits. Not thread-safe.
class MatmulEngine {
 public:
  /// `algorithms`: null, or a list of this library, which outlives the engine.
  explicit MatmulEngine(cudaStream_t stream, const ProductLimits& limits = {},
                        const MatmulAlgorithms* algorithms = nullptr);
  ~MatmulEngine();
  MatmulEngine(const MatmulEngine&) = delete;
  MatmulEngine& operator=(const MatmulEngine&) = delete;

  /// The product of ops::Backend::matmul, in blocks where it is beyond the limits of the library. `workspace` is
  /// scratch for the duration of the queued work.
  void run(const Matmul& product, Workspace workspace);

  /// Of a product within the limits, whose operands are there. Waits for the stream.
  [[nodiscard]] ProductTiming time(const Matmul& product, Workspace workspace);

 private:
  class Plan;

  /// A product that is neither empty nor beyond the limits.
  void run_block(const Matmul& product, Workspace workspace);
  [[nodiscard]] std::unique_ptr<Plan> make_plan(const Matmul& product, const ProductKey& key,
                                                Workspace workspace) const;
  /// What the heuristic puts first. Throws an Error where the library has no algorithm.
  [[nodiscard]] std::unique_ptr<Plan> first_plan(const Matmul& product, const ProductKey& key,
                                                 Workspace workspace) const;

  cudaStream_t stream_;
  ProductLimits limits_;
  const MatmulAlgorithms* algorithms_;
  cublasLtHandle_t library_ = nullptr;
  std::unordered_map<ProductKey, std::unique_ptr<Plan>, ProductKeyHash> plans_;
};

}  // namespace sft::ops::cuda
