// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank holds of an entry, in pieces that fit a buffer.

#include <algorithm>
#include <cstdint>

#include "sft/checkpoint/state.hpp"
#include "sft/core/dtype.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::checkpoint {

inline constexpr std::int64_t piece_bytes = 1 << 20;  ///< at most

/// The pieces of a rectangle, row-major, that fit into `capacity` elements: whole rows, or columns of one row. Calls
/// visit(piece, element of the entry's memory where it begins); the rectangle begins at `memory_begin`.
template <class Visit>
void for_each_piece(const io::Rectangle& whole, std::int64_t memory_begin, std::int64_t capacity, const Visit& visit) {
  const std::int64_t num_columns = std::min(whole.num_columns, capacity);
  const std::int64_t num_rows = std::max<std::int64_t>(capacity / whole.num_columns, 1);
  for (std::int64_t row = 0; row < whole.num_rows; row += num_rows) {
    for (std::int64_t column = 0; column < whole.num_columns; column += num_columns) {
      const io::Rectangle piece = {whole.row_begin + row, std::min(num_rows, whole.num_rows - row),
                                   whole.column_begin + column, std::min(num_columns, whole.num_columns - column)};
      visit(piece, memory_begin + row * whole.num_columns + column);
    }
  }
}

/// All parts of an entry in pieces. Calls visit(part, piece, first of its elements in the entry's memory).
template <class Visit>
void for_each_piece(const Entry& entry, bool only_owned, const Visit& visit) {
  const auto capacity = piece_bytes / static_cast<std::int64_t>(size_of(entry.dtype()));
  for (const parallel::StoredPart& part : entry.layout->parts(*entry.shard_map)) {
    if (only_owned && !part.is_owner) continue;
    const parallel::LogicalRectangle& w = part.where;
    for_each_piece({w.row_begin, w.num_rows, w.column_begin, w.num_columns}, w.shard_offset, capacity,
                   [&](const io::Rectangle& piece, std::int64_t begin) { visit(part, piece, begin); });
  }
}

}  // namespace sft::checkpoint
