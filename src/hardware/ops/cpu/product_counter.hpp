// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the machine code of a model's matrix products takes on a CPU, counted of the calls of the model itself.

#include <cstdint>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "ops/cpu/matmul.hpp"
#include "sft/ops/factory.hpp"
#include "sft/ops/null_backend.hpp"

namespace sft::ops::cpu {

/// Computes nothing, over the addresses of sizing arenas, and notes which products an engine would make machine code
/// for: each kind once, whatever the number of micro-batches and layers. Products of experts count in all sizes that
/// pieces of their rows have (row_pieces.hpp).
class ProductCounter final : public NullBackend {
 public:
  /// Of a processor whose best instruction set is `isa`.
  ProductCounter(Isa isa, device::Stream& stream) : NullBackend(stream), isa_(isa) {}

  void set_workspace(Tensor workspace) override { workspace_bytes_ = workspace.size_bytes(); }
  void run(const Call& call) override;

  /// See ops::products_bytes.
  [[nodiscard]] std::size_t code_bytes(const ProductUse& use) const;

 private:
  using Kinds = std::unordered_set<MatmulEngine::Key, MatmulEngine::KeyHash>;

  /// Of one size of product, or shared by many of one type.
  enum class Code { own, shared_bf16, shared_float32 };

  /// Whether oneDNN makes it or the float32 tiles it is made of.
  [[nodiscard]] bool has_code(const Matmul& product) const;
  void note(const Matmul& product, Kinds& kinds) const;
  void note(const Fp8Matmul& product);
  /// `grouped` is of tensors with the rows of the smallest piece.
  template <class Grouped>
  void note_expert(Grouped& grouped);
  /// The products of an expert that has any number of rows up to `most_rows`.
  [[nodiscard]] Kinds pieces_of_experts(std::int64_t most_rows) const;
  [[nodiscard]] Code code_of(const MatmulEngine::Key& key) const;
  [[nodiscard]] std::int64_t bytes_of(const Kinds& kinds) const;
  [[nodiscard]] std::int64_t library_bytes(const std::set<Code>& codes) const;

  Isa isa_;
  std::size_t workspace_bytes_ = 0;
  Kinds of_tokens_;
  std::unordered_map<MatmulEngine::Key, Matmul, MatmulEngine::KeyHash> of_experts_;  ///< with the smallest piece
};

}  // namespace sft::ops::cpu
