// SPDX-License-Identifier: Apache-2.0
#pragma once
// Copies of bf16 operands in the order that AMX tiles read them.

#include "ops/cpu/kernels/bf16_pairs.hpp"
#include "ops/cpu/kernels/packed_operands.hpp"

namespace sft::ops::cpu::SFT_ISA {

/// A tile has 16 lines (rows of a, columns of b) of 32 terms; a panel is two tiles side by side, term after term.
inline constexpr std::int64_t tile_lines = 16, tile_terms = block_step, tile_numbers = tile_lines * tile_terms;
inline constexpr std::int64_t panel_lines = 2 * tile_lines;

/// 8 numbers at each of four places `stride` numbers apart, one behind the other.
inline __m512i four_quarters(const Bf16* from, std::int64_t stride) {
  const auto quarter = [&](std::int64_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * stride));
  };
  __m512i all = _mm512_castsi128_si512(quarter(0));
  all = _mm512_inserti32x4(all, quarter(1), 1);
  all = _mm512_inserti32x4(all, quarter(2), 2);
  return _mm512_inserti32x4(all, quarter(3), 3);
}

/// What a quarter has in its lower (is_lower) or upper half of a and b in turn: bf16 numbers of 8 rows, words of 4.
template <int num_rows, bool is_lower>
__m512i dealt(__m512i a, __m512i b) {
  if constexpr (num_rows == 8) {
    return is_lower ? _mm512_unpacklo_epi16(a, b) : _mm512_unpackhi_epi16(a, b);
  } else {
    return is_lower ? _mm512_unpacklo_epi32(a, b) : _mm512_unpackhi_epi32(a, b);
  }
}

/// Transposes the square that each quarter of the rows holds: of 8 rows of 8 bf16 numbers, or of 4 rows of 4 words. One
/// round deals two halves of the rows like cards, which moves a bit of a number's row into its column.
template <int num_rows>
void transpose_quarters(__m512i (&rows)[num_rows]) {
#pragma GCC unroll 3
  for (int side = 1; side < num_rows; side *= 2) {
    __m512i mixed[num_rows];
#pragma GCC unroll 4
    for (int i = 0; i < num_rows / 2; ++i) {
      mixed[2 * i] = dealt<num_rows, true>(rows[i], rows[i + num_rows / 2]);
      mixed[2 * i + 1] = dealt<num_rows, false>(rows[i], rows[i + num_rows / 2]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < num_rows; ++i) rows[i] = mixed[i];
  }
}

/// The two forms of a tile: line by line, for a; and for b pair by pair of terms, see bf16_pairs.hpp.
enum class Form { lines, pairs };

/// Of lines whose terms are neighbours.
template <Form form>
void pack_lines(Bf16* tile, const Bf16* from, std::int64_t line_stride) {
  if constexpr (form == Form::lines) {
    for (std::int64_t line = 0; line < tile_lines; ++line) {
      _mm512_storeu_si512(tile + line * tile_terms, _mm512_loadu_si512(from + line * line_stride));
    }
  } else {
    for (std::int64_t quarter = 0; quarter < 4; ++quarter) {
      __m512i rows[4];  // in its quarter l, row i holds 4 pairs of line 4 l + i
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) rows[i] = four_quarters(from + i * line_stride + 8 * quarter, 4 * line_stride);
      transpose_quarters(rows);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) _mm512_storeu_si512(tile + (4 * quarter + i) * 2 * tile_lines, rows[i]);
    }
  }
}

/// Of lines that are neighbours.
template <Form form>
void pack_neighbours(Bf16* tile, const Bf16* from, std::int64_t term_stride) {
  if constexpr (form == Form::lines) {
    for (std::int64_t first = 0; first < tile_lines; first += 8) {
      __m512i rows[8];  // in its quarter l, row i holds term 8 l + i of 8 lines
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) rows[i] = four_quarters(from + i * term_stride + first, 8 * term_stride);
      transpose_quarters(rows);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) _mm512_storeu_si512(tile + (first + i) * tile_terms, rows[i]);
    }
  } else {
    pair_rows(reinterpret_cast<std::int32_t*>(tile), tile_lines, from, term_stride, {tile_terms, tile_lines});
  }
}

/// At most a tile of lines, one of whose strides is 1, with zeros for the lines and terms that it lacks.
template <Form form>
void pack_tile(Bf16* tile, const Lines<Bf16>& lines) {
  if (lines.count == tile_lines && lines.depth == tile_terms) {
    if (lines.term_stride == 1) return pack_lines<form>(tile, lines.data, lines.line_stride);
    return pack_neighbours<form>(tile, lines.data, lines.term_stride);
  }
  Bf16 padded[tile_numbers] = {};
  if (lines.term_stride == 1) {
    for (std::int64_t line = 0; line < lines.count; ++line) {
      __builtin_memcpy(padded + line * tile_terms, lines.at(line), lines.depth * sizeof(Bf16));
    }
    return pack_lines<form>(tile, padded, tile_terms);
  }
  for (std::int64_t term = 0; term < lines.depth; ++term) {
    __builtin_memcpy(padded + term * tile_lines, lines.data + term * lines.term_stride, lines.count * sizeof(Bf16));
  }
  pack_neighbours<form>(tile, padded, tile_lines);
}

/// Copies lines as panels, one behind the other; zeros stand for lines and terms that fill up tiles. `out` has room for
/// whole panels.
template <Form form>
void pack_panels(Bf16* out, const Lines<Bf16>& lines) {
  const std::int64_t panel_terms = round_up(lines.depth, tile_terms);
  const auto pack = [&](std::int64_t line, std::int64_t term) {
    Lines<Bf16> part = lines;
    part.data = lines.at(line) + term * lines.term_stride;
    part.count = max(0, min(tile_lines, lines.count - line));
    part.depth = min(tile_terms, lines.depth - term);
    const std::int64_t panel = line / panel_lines * panel_lines;
    pack_tile<form>(out + panel * panel_terms + term * panel_lines + (line - panel) * tile_terms, part);
  };
  const std::int64_t count = round_up(lines.count, panel_lines);
  if (lines.term_stride == 1) {  // neighbours in memory one after the other, which it gives soonest
    for (std::int64_t line = 0; line < count; line += tile_lines) {
      for (std::int64_t term = 0; term < lines.depth; term += tile_terms) pack(line, term);
    }
  } else {
    for (std::int64_t term = 0; term < lines.depth; term += tile_terms) {
      for (std::int64_t line = 0; line < count; line += tile_lines) pack(line, term);
    }
  }
}

}  // namespace sft::ops::cpu::SFT_ISA
