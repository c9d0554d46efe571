// SPDX-License-Identifier: Apache-2.0
#pragma once
// State of some parameters alone: their elements of a rank shard, one behind the other. Pure.

#include <cstdint>
#include <vector>

#include "sft/parallel/shard_map.hpp"
#include "sft/parallel/stored_layout.hpp"
#include "state_arrays.hpp"
#include "update_plan.hpp"

namespace sft::optim {

/// Where they lie in an array of theirs.
class PackedShard {
 public:
  PackedShard(const parallel::ShardMap& shard_map, const IsParameter& is_kept);

  [[nodiscard]] std::int64_t num_elements() const { return num_elements_; }
  /// The place of the first kept element at or behind element `at` of the rank shard; num_elements() where there is
  /// none. Elements of one parameter are neighbours in both.
  [[nodiscard]] std::int64_t place_of(std::int64_t at) const;

 private:
  struct Range {
    std::int64_t begin, count;  ///< in the rank shard
    std::int64_t place;
  };
  std::vector<Range> ranges_;  ///< ascending
  std::int64_t num_elements_ = 0;
};

/// Such an array, cut as the windows are.
[[nodiscard]] StateArray packed_array(const PackedShard& shard, const std::vector<Window>& windows, DType dtype,
                                      StateLocation place);

/// Such an array as tensors of a checkpoint, in the parameters' shapes.
class PackedLayout final : public parallel::StoredLayout {
 public:
  explicit PackedLayout(IsParameter is_kept) : is_kept_(std::move(is_kept)) {}
  [[nodiscard]] std::vector<parallel::StoredTensor> tensors(const parallel::ShardMap& shard_map) const override;
  [[nodiscard]] std::vector<parallel::StoredPart> parts(const parallel::ShardMap& shard_map) const override;
  [[nodiscard]] std::int64_t num_elements(const parallel::ShardMap& shard_map) const override;

 private:
  const IsParameter is_kept_;
};

}  // namespace sft::optim
