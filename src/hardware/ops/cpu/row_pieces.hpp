// SPDX-License-Identifier: Apache-2.0
#pragma once
// The pieces that the products of an expert's rows run in. Routing gives experts any numbers of rows, and machine code
// of products is made for one number: of pieces there are few.

#include <bit>
#include <cstdint>

namespace sft::ops::cpu {

/// Rows of the smallest piece. What is left of fewer rows is one piece, too.
inline constexpr std::int64_t least_piece_rows = 16;

/// The largest piece of `num_rows` rows: a multiple of the smallest up to 16 times that, then in eight steps from each
/// power of two to the next. What is left is less than an eighth, so that reading the expert's weights once more costs
/// little: measured, products took up to 1.02 times as long as whole ones, and with powers of two alone 1.03 to 1.08.
[[nodiscard]] constexpr std::int64_t piece_rows(std::int64_t num_rows) {
  constexpr std::uint64_t steps = 8;
  const auto smallest = static_cast<std::uint64_t>(num_rows / least_piece_rows);
  if (smallest == 0) return num_rows;
  const std::uint64_t step = smallest < steps ? 1 : std::bit_floor(smallest) / steps;
  return static_cast<std::int64_t>(smallest / step * step) * least_piece_rows;
}

/// The next larger size of piece than one of `num_rows` rows, which is at least the smallest.
[[nodiscard]] constexpr std::int64_t next_piece_rows(std::int64_t num_rows) {
  std::int64_t rows = num_rows + least_piece_rows;
  while (piece_rows(rows) != rows) rows += least_piece_rows;
  return rows;
}

}  // namespace sft::ops::cpu
