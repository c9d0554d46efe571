// SPDX-License-Identifier: Apache-2.0
#pragma once
// The products of all experts in one call of cuBLAS (cublasGemmGroupedBatchedEx): where each expert has few rows, a
// product by itself fills no GPU and takes about as long to launch as to run.

#include <cublas_v2.h>

#include <cstdint>
#include <vector>

#include "ops/cuda/kernels/view.hpp"
#include "ops/product_blocks.hpp"
#include "sft/ops/backend.hpp"

namespace sft::ops::cuda {

/// Runs groups of products on one stream. Nothing is waited for: sizes go to the library from host memory, addresses
/// through the workspace, as arguments of a kernel. The same products give the same bits. Not thread-safe.
class GroupedMatmulEngine {
 public:
  explicit GroupedMatmulEngine(cudaStream_t stream, const ProductLimits& limits = {})
      : stream_(stream), limits_(limits) {}
  ~GroupedMatmulEngine();
  GroupedMatmulEngine(const GroupedMatmulEngine&) = delete;
  GroupedMatmulEngine& operator=(const GroupedMatmulEngine&) = delete;

  /// Queues the products of ops::Backend::matmul, which differ in sizes and addresses alone, and returns true; or
  /// queues nothing and returns false: then they are MatmulEngine's. That is so for fewer than two products that are
  /// not empty, for what the library's table lacks (float32 results of bf16, such as gradients of weights) or does not
  /// promise to take (bf16 that is not aligned to 16 bytes), for products beyond the limits, and, with one warning in
  /// a process, where the library is missing or too old. `workspace` is scratch for the duration of the queued work.
  [[nodiscard]] bool run(const std::vector<Matmul>& products, Workspace workspace);

 private:
  /// Whether the library is there.
  bool has_library();

  cudaStream_t stream_;
  ProductLimits limits_;
  cublasHandle_t library_ = nullptr;
  bool is_missing_ = false;
};

}  // namespace sft::ops::cuda
