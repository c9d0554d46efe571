// SPDX-License-Identifier: Apache-2.0
#pragma once
// The nearest codes of numbers in loops that are made vectors: nearest_code in two look-ups in place of eight.

#include "ops/block_codes.hpp"
#include "ops/cpu/kernels/types.hpp"

namespace sft::ops::cpu::SFT_ISA {

/// Numbers of [2^-23, 1] fall into cells by their exponent and the first 7 bits of their mantissa; none has more than
/// one border of a code, of which the first is above 2^-23.
struct CodeSearch {
  static constexpr std::int32_t first_cell = (127 - 23) << 7, num_cells = (23 << 7) + 1;
  float borders[256];             ///< between the numbers that are not negative, ascending
  std::int32_t below[num_cells];  ///< how many of them lie below the cell

  /// Where in `below` a number that is not negative is.
  static std::int32_t cell_of(float x) {
    const std::int32_t cell = (__builtin_bit_cast(std::int32_t, x) >> 16) - first_cell;
    return cell < 0 ? 0 : (cell < num_cells ? cell : num_cells - 1);
  }
};

static constexpr CodeSearch make_code_search(bool is_signed) {
  const BlockCode code = make_block_code(is_signed);
  const int zero = is_signed ? signed_zero_code : 0;
  CodeSearch search{};
  for (int i = 0; i < 256; ++i) search.borders[i] = i < 255 - zero ? code.borders[zero + i] : 2.0f;
  int below = 0;
  for (std::int32_t cell = 0; cell < CodeSearch::num_cells; ++cell) {
    const float begin = __builtin_bit_cast(float, (CodeSearch::first_cell + cell) << 16);
    while (search.borders[below] < begin) ++below;
    search.below[cell] = below;
  }
  return search;
}

/// Whether the cells are as CodeSearch says.
static constexpr bool has_fine_cells(const CodeSearch& search) {
  bool is_fine = search.below[0] == 0;
  for (std::int32_t cell = 1; cell < CodeSearch::num_cells; ++cell) {
    is_fine = is_fine && search.below[cell] - search.below[cell - 1] <= 1;
  }
  return is_fine;
}
static_assert(has_fine_cells(make_code_search(true)) && has_fine_cells(make_code_search(false)));

/// Of the code without a sign; x is not negative.
inline std::int32_t nearest_unsigned_code(const CodeSearch& search, float x) {
  const std::int32_t below = search.below[CodeSearch::cell_of(x)];
  return below + (x > search.borders[below] ? 1 : 0);
}

/// Of the code with a sign. A negative number gets a negative one: the nearest to it below zero.
inline std::int32_t nearest_signed_code(const CodeSearch& search, float x) {
  const float magnitude = __builtin_fabsf(x);
  const std::int32_t below = search.below[CodeSearch::cell_of(magnitude)];
  const float border = search.borders[below];
  const std::int32_t up = below + (magnitude > border ? 1 : 0), down = below + (magnitude >= border ? 1 : 0);
  const std::int32_t negative = down < 1 ? 1 : (down < signed_zero_code ? down : signed_zero_code);
  return x < 0 ? signed_zero_code - negative : signed_zero_code + up;
}

}  // namespace sft::ops::cpu::SFT_ISA
