// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products of matrices of 8-bit floats through cuBLASLt, with float32 sums.

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "ops/cuda/kernels/view.hpp"
#include "ops/product_blocks.hpp"
#include "sft/ops/backend.hpp"

namespace sft::ops::cuda {

/// Runs products on one stream. The same product gives the same bits. Not thread-safe.
///
/// The library takes what lies as ops::Fp8Matrix does, and writes c whose rows begin at multiples of 16 bytes and are
/// as long. Other ones are made in scratch memory, block by block, and so is what is beyond the library's limits.
class Fp8MatmulEngine {
 public:
  explicit Fp8MatmulEngine(cudaStream_t stream, const ProductLimits& limits = {});
  ~Fp8MatmulEngine();
  Fp8MatmulEngine(const Fp8MatmulEngine&) = delete;
  Fp8MatmulEngine& operator=(const Fp8MatmulEngine&) = delete;

  /// The product of ops::Backend::fp8_matmul. `workspace` is scratch for the duration of the queued work.
  void run(const Fp8Matmul& product, Workspace workspace);

 private:
  class Plan;
  struct Block;
  struct Steps;
  /// m, n, k, strides of a, b and c, and what the operands are: of products that run alike.
  using Key = std::array<std::int64_t, 7>;

  /// How the product is cut into blocks.
  [[nodiscard]] Steps steps_of(const Fp8Matmul& product) const;
  /// Makes a block of c where it lies, or in `room`, from where it is copied. Scales may be copied to `room`, too.
  void run_block(const Fp8Matmul& product, const Block& block, Workspace room, Workspace workspace);
  /// A product that the library takes as it is.
  void multiply(const Fp8Matmul& product, Workspace workspace);

  cudaStream_t stream_;
  ProductLimits limits_;
  cublasLtHandle_t library_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace sft::ops::cuda
