// SPDX-License-Identifier: Apache-2.0
// Matrix products of any size on copies of blocks of both operands, in the order the registers read them: Goto and van
// de Geijn, Anatomy of high-performance matrix multiplication (2008), with the loops of BLIS. A block of b stays in the
// third-level cache, one of a in the second, a panel of b in the first, and a tile of c in registers. Copies are
// float32: bf16 numbers become that as they are copied.

#include "ops/cpu/kernels/packed_operands.hpp"
#include "ops/cpu/kernels/run.hpp"
#include "ops/cpu/kernels/transpose.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

constexpr std::int64_t tile_rows = panel_rows, tile_columns = panel_vectors * vector_floats;

/// Copies the first multiple of vector_floats terms of up to `width` lines whose terms are neighbours, and returns how
/// many these are. Writes up to vector_floats numbers behind the last.
template <std::int64_t width, class T>
std::int64_t pack_transposed(const Lines<T>& lines, float* out) {
  std::int64_t p = 0;
  for (; p + vector_floats <= lines.depth; p += vector_floats) {
    for (std::int64_t first = 0; first < width; first += vector_floats) {
      Words square[vector_floats];
#pragma GCC unroll 16
      for (int i = 0; i < vector_floats; ++i) {
        square[i] = reinterpret_cast<Words>(vector_at(lines.at(min(first + i, lines.count - 1)) + p));
      }
      transpose(square);
#pragma GCC unroll 16
      for (int i = 0; i < vector_floats; ++i) {
        *reinterpret_cast<UnalignedWords*>(out + (p + i) * width + first) = square[i];
      }
    }
  }
  return p;
}

/// Copies `width` lines that are neighbours, in whole vectors: of bf16 numbers more lines than `width` are read, and
/// numbers behind each term written, which the next one's come over.
template <std::int64_t width>
void pack_neighbours(const Lines<float>& lines, float* out) {
  for (std::int64_t p = 0; p < lines.depth; ++p) {
    __builtin_memcpy(out + p * width, lines.data + p * lines.term_stride, width * sizeof(float));
  }
}
template <std::int64_t width>
void pack_neighbours(const Lines<Bf16>& lines, float* out) {
  for (std::int64_t p = 0; p < lines.depth; ++p) {
#pragma GCC unroll 4
    for (std::int64_t first = 0; first < width; first += vector_floats) {
      *reinterpret_cast<Vector*>(out + p * width + first) = vector_at(lines.data + p * lines.term_stride + first);
    }
  }
}

/// out[p * width + line] = the lines, and copies of the last where there are fewer than `width`. Writes up to
/// vector_floats numbers behind the last.
template <std::int64_t width, class T>
void pack_panel(const Lines<T>& lines, float* out) {
  constexpr std::int64_t whole_vectors = (width + vector_floats - 1) / vector_floats * vector_floats;
  constexpr std::int64_t lines_read = sizeof(T) == sizeof(float) ? width : whole_vectors;
  if (lines.line_stride == 1 && lines.count >= lines_read) return pack_neighbours<width>(lines, out);
  std::int64_t p = 0;
  if constexpr (width % vector_floats == 0 || width < vector_floats) {
    if (lines.term_stride == 1) p = pack_transposed<width>(lines, out);
  }
  for (; p < lines.depth; ++p) {
    for (std::int64_t line = 0; line < width; ++line) {
      out[p * width + line] = load(lines.at(min(line, lines.count - 1))[p * lines.term_stride]);
    }
  }
}

/// `width` lines as the registers read them.
struct Panel {
  const float* data;
  std::int64_t line_stride, term_stride;
};

/// Lines as panels, one behind the other: copied, or, of float32, read where they lie when a copy would be read too few
/// times to pay for itself.
template <std::int64_t width, class T>
class Panels {
 public:
  /// Copies to `copies`, with room for whole panels and vector_floats numbers.
  Panels(const Lines<T>& lines, float* copies, bool in_place)
      : lines_(lines), copies_(copies), in_place_(in_place && is_float32) {
    for (std::int64_t first = in_place_ ? lines.count / width * width : 0; first < lines.count; first += width) {
      Lines<T> panel = lines;
      panel.data = lines.at(first);
      panel.count = lines.count - first;
      pack_panel<width>(panel, copies + first * lines.depth);
    }
  }

  [[nodiscard]] Panel at(std::int64_t first) const {
    if constexpr (is_float32) {
      if (in_place_ && first + width <= lines_.count) return {lines_.at(first), lines_.line_stride, lines_.term_stride};
    }
    return {copies_ + first * lines_.depth, 1, width};
  }

 private:
  static constexpr bool is_float32 = sizeof(T) == sizeof(float);

  Lines<T> lines_;
  float* copies_;
  bool in_place_;
};

/// Where the sums of a tile go.
struct Target {
  float* c;
  std::int64_t stride, rows, columns;
  bool accumulate;
};

template <bool accumulate>
void store_tile(const Vector (&sums)[tile_rows][panel_vectors], float* c, std::int64_t stride) {
#pragma GCC unroll 8
  for (int i = 0; i < tile_rows; ++i) {
    Vector* out = reinterpret_cast<Vector*>(c + i * stride);
#pragma GCC unroll 8
    for (int j = 0; j < panel_vectors; ++j) out[j] = accumulate ? out[j] + sums[i][j] : sums[i][j];
  }
}

/// Of panels whose strides are those of copies when `are_copies`.
template <bool are_copies>
void multiply_tile(const Panel& a, const Panel& b, std::int64_t depth, const Target& target) {
  for (std::int64_t i = 0; i < target.rows; ++i) {  // which later stores would wait for
    __builtin_prefetch(target.c + i * target.stride, 1);
    __builtin_prefetch(target.c + i * target.stride + target.columns - 1, 1);
  }
  const std::int64_t row_stride = are_copies ? 1 : a.line_stride, a_stride = are_copies ? tile_rows : a.term_stride;
  const std::int64_t b_stride = are_copies ? tile_columns : b.term_stride;
  alignas(vector_bytes) Vector sums[tile_rows][panel_vectors] = {};
  for (std::int64_t p = 0; p < depth; ++p) {
    const Vector* right = reinterpret_cast<const Vector*>(b.data + p * b_stride);
    const float* left = a.data + p * a_stride;
#pragma GCC unroll 8
    for (int i = 0; i < tile_rows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < panel_vectors; ++j) sums[i][j] += left[i * row_stride] * right[j];
    }
  }
  if (target.rows == tile_rows && target.columns == tile_columns) {
    return target.accumulate ? store_tile<true>(sums, target.c, target.stride)
                             : store_tile<false>(sums, target.c, target.stride);
  }
  float tile[tile_rows * tile_columns];
  store_tile<false>(sums, tile, tile_columns);
  for (std::int64_t i = 0; i < target.rows; ++i) {
    float* out = target.c + i * target.stride;
    for (std::int64_t j = 0; j < target.columns; ++j) {
      out[j] = target.accumulate ? out[j] + tile[i * tile_columns + j] : tile[i * tile_columns + j];
    }
  }
}

template <class T>
void multiply_block(const Panels<tile_rows, T>& a, const Panels<tile_columns, T>& b, std::int64_t depth,
                    const Target& target) {
  for (std::int64_t column = 0; column < target.columns; column += tile_columns) {
    const Panel right = b.at(column);
    for (std::int64_t row = 0; row < target.rows; row += tile_rows) {
      const Panel left = a.at(row);
      const Target tile{target.c + row * target.stride + column, target.stride, min(tile_rows, target.rows - row),
                        min(tile_columns, target.columns - column), target.accumulate};
      const bool are_copies =
          left.line_stride == 1 && left.term_stride == tile_rows && right.term_stride == tile_columns;
      (are_copies ? multiply_tile<true> : multiply_tile<false>)(left, right, depth, tile);
    }
  }
}

/// The part of c whose sums are made at a time: they are float32 there, or in scratch.
template <class T, class C>
struct Part {
  const Product<T, C>& product;
  std::int64_t row, column, rows, columns;
  float* sums;
  std::int64_t stride;

  /// What the sums begin with.
  void begin() const {
    if (!product.has_terms_before() || (sizeof(C) == sizeof(float) && product.bias == nullptr)) return;
    for (std::int64_t i = 0; i < rows; ++i) product.read_terms_before(sums + i * stride, row + i, column, columns);
  }
  void finish() const {
    if constexpr (sizeof(C) != sizeof(float)) {
      for (std::int64_t i = 0; i < rows; ++i) {
        C* to = product.result(row + i, column);
        const float* from = sums + i * stride;
#pragma omp simd
        for (std::int64_t j = 0; j < columns; ++j) store(to[j], from[j]);
      }
    }
  }
};

template <class T, class C>
void multiply_part(const Part<T, C>& part, float* a_copies, float* b_copies) {
  const Product<T, C>& product = part.product;
  // So few lines of the other operand that a copy would be read twice at most.
  const bool keeps_a = product.n <= 2 * tile_columns;
  const bool keeps_b = product.m <= 2 * tile_rows && product.b_column_stride == 1;
  part.begin();
  for (std::int64_t term = 0; term < product.k; term += packed_block_depth) {
    const std::int64_t depth = min(packed_block_depth, product.k - term);
    const Panels<tile_columns, T> b(product.columns(part.column, term, part.columns, depth), b_copies, keeps_b);
    for (std::int64_t row = 0; row < part.rows; row += packed_block_rows) {
      const std::int64_t rows = min(packed_block_rows, part.rows - row);
      const Panels<tile_rows, T> a(product.rows(part.row + row, term, rows, depth), a_copies, keeps_a);
      multiply_block(
          a, b, depth,
          {part.sums + row * part.stride, part.stride, rows, part.columns, product.has_terms_before() || term > 0});
    }
  }
  part.finish();
}

template <class T, class C>
void multiply_in_parts(const Product<T, C>& product, Scratch scratch) {
  constexpr bool sums_in_place = sizeof(C) == sizeof(float);
  const std::int64_t most_rows = sums_in_place ? product.m : min(product.m, packed_sum_rows);
  float* const b_copies = scratch.data + packed_block_rows * packed_block_depth + vector_floats;
  const std::int64_t room = scratch.num_floats - (b_copies - scratch.data) - vector_floats;
  const std::int64_t floats_of_column = packed_block_depth + (sums_in_place ? 0 : most_rows);
  const std::int64_t most_columns = min(packed_block_columns, room / floats_of_column) / tile_columns * tile_columns;
  float* const sums = b_copies + most_columns * packed_block_depth + vector_floats;
  for (std::int64_t column = 0; column < product.n; column += most_columns) {
    for (std::int64_t row = 0; row < product.m; row += most_rows) {
      Part<T, C> part{
          product, row,         column, min(most_rows, product.m - row), min(most_columns, product.n - column),
          sums,    most_columns};
      if constexpr (sums_in_place) {
        part.sums = product.result(row, column);
        part.stride = product.c_stride;
      }
      multiply_part(part, scratch.data, b_copies);
    }
  }
}

}  // namespace

void packed_matmul(const MatmulArguments& product, Scratch scratch) {
  if (!product.has_bf16_operands) return multiply_in_parts(Product<float, float>(product), scratch);
  if (!product.has_bf16_result) return multiply_in_parts(Product<Bf16, float>(product), scratch);
  multiply_in_parts(Product<Bf16, Bf16>(product), scratch);
}

}  // namespace sft::ops::cpu::SFT_ISA
