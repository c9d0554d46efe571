// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arithmetic of rectangles of tensors. Pure.

#include <algorithm>
#include <vector>

#include "sft/io/tensor_source.hpp"
#include "sft/parallel/shard_map.hpp"

namespace sft::checkpoint {

/// Elements [begin, begin + count) of a rectangle, row-major, as at most three rectangles, in their order.
[[nodiscard]] inline std::vector<io::Rectangle> rectangles_of(const io::Rectangle& whole, std::int64_t begin,
                                                              std::int64_t count) {
  std::vector<io::Rectangle> result;
  for (const parallel::LogicalRectangle& r : parallel::ShardMap::rectangles({begin, count, whole.num_columns}, 0)) {
    result.push_back({whole.row_begin + r.row_begin, r.num_rows, whole.column_begin + r.column_begin, r.num_columns});
  }
  return result;
}

/// What both have; one without elements where they do not meet.
[[nodiscard]] inline io::Rectangle intersection(const io::Rectangle& a, const io::Rectangle& b) {
  const std::int64_t row = std::max(a.row_begin, b.row_begin), column = std::max(a.column_begin, b.column_begin);
  const std::int64_t row_end = std::min(a.row_begin + a.num_rows, b.row_begin + b.num_rows);
  const std::int64_t column_end = std::min(a.column_begin + a.num_columns, b.column_begin + b.num_columns);
  return {row, std::max<std::int64_t>(row_end - row, 0), column, std::max<std::int64_t>(column_end - column, 0)};
}

/// Whether every element of `next` comes behind all of `one` in the row-major order of the tensor, unless both have the
/// same rows.
[[nodiscard]] inline bool follows(const io::Rectangle& one, const io::Rectangle& next) {
  const std::int64_t end = one.row_begin + one.num_rows;
  return next.row_begin >= end || (one.num_rows == 1 && next.num_rows == 1 && next.row_begin == one.row_begin &&
                                   next.column_begin >= one.column_begin + one.num_columns);
}

}  // namespace sft::checkpoint
