// SPDX-License-Identifier: Apache-2.0
#pragma once
// The nearest codes of numbers: nearest_code by one look-up in a table. What is around it is for loops that are made
// vectors; the look-ups themselves go one by one (look_up), for gathers into vectors take several times as long on many
// processors.

#include "ops/cpu/kernels/types.hpp"
#include "sft/core/block_codes.hpp"

namespace sft::ops::cpu::SFT_ISA {

/// Numbers of [2^-23, 1] fall into cells by their exponent and the first 7 bits of their mantissa, the upper half of
/// their bits. No cell has more than one border of a code, of which the first is above 2^-23: so the lower half of the
/// bits says on which side of it a number lies.
struct CodeSearch {
  static constexpr std::int32_t first_cell = (127 - 23) << 7, num_cells = (23 << 7) + 1;
  static constexpr std::int32_t no_border = 1 << 16;
  /// How many borders lie below the cell, times 2^17, + the lower half of the border in it, or no_border. Borders are
  /// those between numbers that are not negative.
  std::int32_t cells[num_cells];

  /// The cell of a number that is not negative.
  static std::int32_t cell_of(float x) {
    const std::int32_t cell = (__builtin_bit_cast(std::int32_t, x) >> 16) - first_cell;
    return cell < 0 ? 0 : (cell < num_cells ? cell : num_cells - 1);
  }
};

/// Throws, and so is no constant, where a cell has more than one border, or the first one has any.
static constexpr CodeSearch make_code_search(bool is_signed) {
  const BlockCode code = make_block_code(is_signed);
  const int zero = is_signed ? signed_zero_code : 0, num_borders = 255 - zero;
  CodeSearch search{};
  int below = 0;
  for (std::int32_t cell = 0; cell < CodeSearch::num_cells; ++cell) {
    const float end = __builtin_bit_cast(float, (CodeSearch::first_cell + cell + 1) << 16);
    const bool has_border = below < num_borders && code.borders[zero + below] < end;
    const std::int32_t border =
        has_border ? __builtin_bit_cast(std::int32_t, code.borders[zero + below]) & 0xffff : CodeSearch::no_border;
    search.cells[cell] = below << 17 | border;
    if (has_border) ++below;
    const bool has_another = below < num_borders && code.borders[zero + below] < end;
    if (has_another || (cell == 0 && has_border)) throw "cells are too coarse";
  }
  if (below != num_borders) throw "a border lies beyond the cells";
  return search;
}

/// to[j] = table[index_of(j)] for j < count.
template <class T, class Index>
inline void look_up(T* to, const T* table, std::int64_t count, const Index& index_of) {
#pragma GCC unroll 8
  for (std::int64_t j = 0; j < count; ++j) {
    std::int64_t index = index_of(j);
    asm("" : "+r"(index));  // no vector
    to[j] = table[index];
  }
}

/// The number of the nearest code without a sign; x is not negative, `cell` the entry of its cell.
inline std::int32_t nearest_unsigned_code(std::int32_t cell, float x) {
  const std::int32_t low = __builtin_bit_cast(std::int32_t, x) & 0xffff;
  return (cell >> 17) + (low > (cell & 0x1ffff) ? 1 : 0);
}

/// The number of the nearest code with a sign; `cell` is the entry of the cell of |x|. A negative number gets a
/// negative code: the nearest to it below zero.
inline std::int32_t nearest_signed_code(std::int32_t cell, float x) {
  const std::int32_t low = __builtin_bit_cast(std::int32_t, x) & 0xffff, border = cell & 0x1ffff, below = cell >> 17;
  const std::int32_t up = below + (low > border ? 1 : 0), down = below + (low >= border ? 1 : 0);
  const std::int32_t negative = down < 1 ? 1 : (down < signed_zero_code ? down : signed_zero_code);
  return x < 0 ? signed_zero_code - negative : signed_zero_code + up;
}

}  // namespace sft::ops::cpu::SFT_ISA
