// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the machine code of a model's matrix products takes on a CPU, counted of the calls of the model itself.

#include <array>
#include <cstdint>
#include <unordered_set>

#include "ops/cpu/matmul.hpp"
#include "ops/null/backend.hpp"

namespace sft::ops::cpu {

/// Computes nothing, over the addresses of sizing arenas, and notes which products an engine would make machine code
/// for: each kind once, whatever the number of micro-batches and layers. Products of experts are noted for all numbers
/// of rows that pieces of them have (GroupedMatmulEngine).
class ProductCounter final : public null::NullBackend {
 public:
  /// Of a processor whose best instruction set is `isa`.
  ProductCounter(Isa isa, device::Stream& stream) : NullBackend(stream), isa_(isa) {}

  void set_workspace(Tensor workspace) override { workspace_bytes_ = workspace.size_bytes(); }
  void matmul(const Matmul& product) override { note(product, of_tokens_); }
  void fp8_matmul(const Fp8Matmul& product) override;
  void gather_tokens(const GatherTokens& gather) override { num_choices_ = gather.num_choices; }
  void grouped_matmul(const GroupedMatmul& grouped) override;
  void grouped_weight_gradient(const GroupedWeightGradient& grouped) override;

  /// See ops::products_bytes.
  [[nodiscard]] std::size_t code_bytes(int num_threads, std::int64_t num_lengths) const;

 private:
  using Kinds = std::unordered_set<MatmulEngine::Key, MatmulEngine::KeyHash>;

  /// Of one product, or shared by all such whose operands have gaps, or for tiles of AMX.
  enum class Code { own, shared, of_tiles };

  void note(const Matmul& product, Kinds& kinds) const;
  template <class Grouped>
  void note_pieces(Grouped grouped, std::int64_t num_experts, std::int64_t num_rows);
  [[nodiscard]] Code code_of(const MatmulEngine::Key& key) const;
  [[nodiscard]] std::int64_t bytes_of(const Kinds& kinds) const;

  Isa isa_;
  std::size_t workspace_bytes_ = 0;
  std::int64_t num_choices_ = 1;  ///< experts of a token
  Kinds of_tokens_, of_experts_;
};

}  // namespace sft::ops::cpu
