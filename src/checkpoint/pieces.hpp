// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors go to storage and come from it a piece at a time.

#include <algorithm>
#include <cstdint>

#include "sft/io/rectangle.hpp"
#include "sft/parallel/shard_map.hpp"

namespace sft::checkpoint {

/// What goes through storage at once, and the pinned memory between storage and the device.
inline constexpr std::int64_t piece_bytes = 1 << 20;

/// The pieces of a rectangle, row-major, that fit into `capacity` elements: whole rows, or columns of one row. Calls
/// visit(piece, element of the entry's memory where it begins).
template <class Visit>
void cut_into_pieces(const parallel::LogicalRectangle& whole, std::int64_t capacity, const Visit& visit) {
  const std::int64_t num_columns = std::min(whole.num_columns, capacity);
  const std::int64_t num_rows = std::max<std::int64_t>(capacity / whole.num_columns, 1);
  for (std::int64_t row = 0; row < whole.num_rows; row += num_rows) {
    for (std::int64_t column = 0; column < whole.num_columns; column += num_columns) {
      const io::Rectangle piece = {whole.row_begin + row, std::min(num_rows, whole.num_rows - row),
                                   whole.column_begin + column, std::min(num_columns, whole.num_columns - column)};
      visit(piece, whole.shard_offset + row * whole.num_columns + column);
    }
  }
}

}  // namespace sft::checkpoint
