// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where Adafactor's state lies: of a matrix the means of its rows and of its columns, which every rank has, and of a
// vector a number for each element, where the rank shard has it. Pure.

#include <cstdint>
#include <vector>

#include "sft/parallel/shard_map.hpp"
#include "sft/parallel/stored_layout.hpp"
#include "update_plan.hpp"

namespace sft::optim {

/// Where the moments of a parameter lie; the same on all ranks that share it.
struct FactoredTensor {
  const parallel::Parameter* parameter;
  std::int64_t row_begin, column_begin;  ///< of a matrix: where its rows and its columns lie in the array of moments
  bool is_counted;                       ///< of the ranks of tp that hold this slice, this one adds to sums over tp
};

/// A rectangle of a parameter that is contiguous in the rank shard; of a vector a row.
struct FactoredPart {
  std::size_t tensor;  ///< its number
  parallel::UnitIndex unit;
  std::int64_t begin;  ///< in the rank shard
  std::int64_t num_rows, num_columns;
  std::int64_t row_begin, column_begin;  ///< of its moments, in their array; vectors have none of rows
  ops::StochasticRounding rounding;      ///< its key is without the step

  [[nodiscard]] std::int64_t num_elements() const { return num_rows * num_columns; }
};

/// The array of moments: rows of all matrices, columns of all matrices, elements of vectors.
struct FactoredPlan {
  explicit FactoredPlan(const parallel::ShardMap& shard_map);

  std::vector<FactoredTensor> tensors;  ///< all trainable ones that the ranks sharing them have: the same numbers
  std::int64_t num_rows = 0, num_columns = 0;
  std::int64_t num_vector_elements = 0;  ///< of this rank
  std::vector<FactoredPart> parts;       ///< of the rank shard, ascending

  [[nodiscard]] std::int64_t num_shared() const { return num_rows + num_columns; }
  [[nodiscard]] std::int64_t num_moments() const { return num_shared() + num_vector_elements; }
};

/// Neighbouring elements of one unit that are stepped at a time.
struct FactoredWindow {
  parallel::UnitIndex unit;
  parallel::ShardRange shard;  ///< in the rank shard, with its padding
  std::vector<FactoredPart> parts;
};

/// The whole rank shard, ascending: a window per unit, or several of max_elements at most.
[[nodiscard]] std::vector<FactoredWindow> plan_windows(const parallel::ShardMap& shard_map, const FactoredPlan& plan,
                                                       std::int64_t max_elements);

/// A part of the array of moments as tensors of a checkpoint. What all ranks have, the first of them writes.
class MomentsLayout final : public parallel::StoredLayout {
 public:
  enum class Kind { rows, columns, vectors };
  explicit MomentsLayout(Kind kind) : kind_(kind) {}
  [[nodiscard]] std::vector<parallel::StoredTensor> tensors(const parallel::ShardMap& shard_map) const override;
  [[nodiscard]] std::vector<parallel::StoredPart> parts(const parallel::ShardMap& shard_map) const override;
  [[nodiscard]] std::int64_t num_elements(const parallel::ShardMap& shard_map) const override;

 private:
  const Kind kind_;
};

}  // namespace sft::optim
