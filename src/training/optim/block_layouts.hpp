// SPDX-License-Identifier: Apache-2.0
#pragma once
// State in 8 bits as tensors of a checkpoint: codes in the parameters' shapes, and a scale for each block. Pure.

#include <cstdint>

#include "block_plan.hpp"
#include "sft/parallel/stored_layout.hpp"

namespace sft::optim {

/// The numbers of parameters whose state is float32, in the parameters' shapes.
class FloatsLayout final : public parallel::StoredLayout {
 public:
  /// `cuts` outlives it.
  explicit FloatsLayout(const BlockCuts& cuts) : cuts_(cuts) {}
  [[nodiscard]] std::vector<parallel::StoredTensor> tensors(const parallel::ShardMap& shard_map) const override;
  [[nodiscard]] std::vector<parallel::StoredPart> parts(const parallel::ShardMap& shard_map) const override;
  [[nodiscard]] std::int64_t num_elements(const parallel::ShardMap& shard_map) const override;

 private:
  const BlockCuts& cuts_;
};

/// The codes of all others, in the parameters' shapes: those of whole blocks, then the cut ones.
class CodesLayout final : public parallel::StoredLayout {
 public:
  explicit CodesLayout(const BlockCuts& cuts) : cuts_(cuts) {}
  [[nodiscard]] std::vector<parallel::StoredTensor> tensors(const parallel::ShardMap& shard_map) const override;
  [[nodiscard]] std::vector<parallel::StoredPart> parts(const parallel::ShardMap& shard_map) const override;
  [[nodiscard]] std::int64_t num_elements(const parallel::ShardMap& shard_map) const override;

 private:
  const BlockCuts& cuts_;
};

/// Their scales: of whole blocks, then all slots, which the first rank of the world writes. A matrix whose rows are
/// whole blocks has (rows, blocks of a row), any other parameter (blocks).
class ScalesLayout final : public parallel::StoredLayout {
 public:
  explicit ScalesLayout(const BlockCuts& cuts) : cuts_(cuts) {}
  [[nodiscard]] std::vector<parallel::StoredTensor> tensors(const parallel::ShardMap& shard_map) const override;
  [[nodiscard]] std::vector<parallel::StoredPart> parts(const parallel::ShardMap& shard_map) const override;
  [[nodiscard]] std::int64_t num_elements(const parallel::ShardMap& shard_map) const override;

 private:
  const BlockCuts& cuts_;
};

}  // namespace sft::optim
