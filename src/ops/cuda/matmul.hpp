// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrix products through cuBLASLt, with float32 sums.

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "ops/cuda/kernels/view.hpp"
#include "ops/product_blocks.hpp"
#include "sft/ops/backend.hpp"

namespace sft::ops::cuda {

/// Runs products on one stream, keeping the algorithm that the library's heuristic puts first for each shape. Nothing
/// is timed, and sums that are split are added up in float32 in one order: the same product gives the same bits. Not
/// thread-safe.
class MatmulEngine {
 public:
  explicit MatmulEngine(cudaStream_t stream, const ProductLimits& limits = {});
  ~MatmulEngine();
  MatmulEngine(const MatmulEngine&) = delete;
  MatmulEngine& operator=(const MatmulEngine&) = delete;

  /// The product of ops::Backend::matmul, in blocks where it is beyond the limits of the library. `workspace` is
  /// scratch for the duration of the queued work.
  void run(const Matmul& product, Workspace workspace);

 private:
  /// What the library's choice depends on: sizes, strides, dtypes and the alignment of the operands.
  struct Key {
    std::array<std::int64_t, 6> sizes;  ///< m, n, k and the strides of a, b, c
    std::uint32_t flags;
    std::array<std::uint32_t, 4> alignments;  ///< of a, b, c, bias, bytes
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  class Plan;

  /// A product that is neither empty nor beyond the limits.
  void run_block(const Matmul& product, Workspace workspace);
  [[nodiscard]] static Key key_of(const Matmul& product);
  [[nodiscard]] std::unique_ptr<Plan> make_plan(const Matmul& product, const Key& key, Workspace workspace) const;

  cudaStream_t stream_;
  ProductLimits limits_;
  cublasLtHandle_t library_ = nullptr;
  std::unordered_map<Key, std::unique_ptr<Plan>, KeyHash> plans_;
};

}  // namespace sft::ops::cuda
