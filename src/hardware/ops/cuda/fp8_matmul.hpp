// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products of matrices of 8-bit floats through cuBLASLt, with float32 sums.

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "ops/cuda/kernels/view.hpp"
#include "ops/cuda/product_timing.hpp"
#include "ops/product_blocks.hpp"
#include "ops/product_key.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/matmul_algorithms.hpp"

namespace sft::ops::cuda {

/// Runs products on one stream, keeping for each kind the algorithm that a list has for it, or that the library's
/// heuristic puts first, under the rules of MatmulEngine: the same product gives the same bits. Not thread-safe.
///
/// The library takes what lies as ops::Fp8Matrix does, and writes c whose rows begin at multiples of 16 bytes and are
/// as long. Other ones are made in scratch memory, block by block, and so is what is beyond the library's limits. So a
/// product is run by one product of the library or more: its parts.
class Fp8MatmulEngine {
 public:
  /// `algorithms`: null, or a list of this library, which outlives the engine.
  explicit Fp8MatmulEngine(cudaStream_t stream, const ProductLimits& limits = {},
                           const MatmulAlgorithms* algorithms = nullptr);
  ~Fp8MatmulEngine();
  Fp8MatmulEngine(const Fp8MatmulEngine&) = delete;
  Fp8MatmulEngine& operator=(const Fp8MatmulEngine&) = delete;

  /// The product of ops::Backend::fp8_matmul. `workspace` is scratch for the duration of the queued work.
  void run(const Fp8Matmul& product, Workspace workspace);

  /// What MatmulAlgorithms names its parts by: the text of each. Of matrices that may not exist.
  [[nodiscard]] std::set<Fp8ProductKey> parts_of(const Fp8Matmul& product) const;
  /// How long its parts take, but for those that `known` has, by their names. Of a product whose operands are there; it
  /// leaves any numbers in c. Waits for the stream.
  [[nodiscard]] std::map<std::string, ProductTiming> time(const Fp8Matmul& product, Workspace workspace,
                                                          const MatmulAlgorithms& known) const;

 private:
  class Plan;
  struct Block;
  struct Steps;

  /// How the product is cut into blocks.
  [[nodiscard]] Steps steps_of(const Fp8Matmul& product) const;
  /// Calls visit(Block) for each, in order.
  template <class Visit>
  void for_each_block(const Fp8Matmul& product, const Visit& visit) const;
  /// Where a block of c is made: where it lies, or in `room`, from where it is copied, with rows and columns more than
  /// it has.
  [[nodiscard]] static Tensor place_of(const Fp8Matmul& product, const Block& block, void* room);
  /// Whether the library adds it. Its bias of such products is bf16, whatever c is.
  [[nodiscard]] static bool is_bias_of_product(const Fp8Matmul& product, const Block& block);
  /// What the library is given from `term` on, with scales where they lie.
  [[nodiscard]] static Fp8Matmul part_of_block(const Fp8Matmul& product, const Block& block, const Tensor& place,
                                               std::int64_t term);
  /// Calls multiply(part, workspace) for each part, among copies of c and of scales.
  template <class Multiply>
  void run_parts(const Fp8Matmul& product, Workspace workspace, const Multiply& multiply) const;

  [[nodiscard]] std::unique_ptr<Plan> make_plan(const Fp8Matmul& product, const Fp8ProductKey& key,
                                                Workspace workspace) const;
  /// What the heuristic puts first. Throws an Error where the library has no algorithm.
  [[nodiscard]] std::unique_ptr<Plan> first_plan(const Fp8Matmul& product, Workspace workspace) const;
  /// A product that the library takes as it is.
  void multiply(const Fp8Matmul& product, Workspace workspace);

  cudaStream_t stream_;
  ProductLimits limits_;
  const MatmulAlgorithms* algorithms_;
  cublasLtHandle_t library_ = nullptr;
  std::map<Fp8ProductKey, std::unique_ptr<Plan>> plans_;
};

}  // namespace sft::ops::cuda
