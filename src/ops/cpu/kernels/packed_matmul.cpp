// SPDX-License-Identifier: Apache-2.0
// Matrix products of any size on copies of blocks of both operands, in the order the registers read them: Goto and van
// de Geijn, Anatomy of high-performance matrix multiplication (2008), with the loops of BLIS. A block of b stays in the
// third-level cache, one of a in the second, a panel of b in the first, and a tile of c in registers.

#include "ops/cpu/kernels/table.hpp"
#include "ops/cpu/kernels/transpose.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

constexpr std::int64_t tile_rows = panel_rows, tile_columns = panel_vectors * vector_floats;

/// Rows of a or columns of b: element p of a line, a term of sums, is data[line * line_stride + p * term_stride].
struct Lines {
  const float* data;
  std::int64_t line_stride, term_stride;
  std::int64_t count, depth;

  [[nodiscard]] const float* at(std::int64_t line) const { return data + line * line_stride; }
};

/// Copies the first multiple of vector_floats terms of up to `width` lines whose terms are neighbours, and returns how
/// many these are. Writes up to vector_floats numbers behind the last.
template <std::int64_t width>
std::int64_t pack_transposed(const Lines& lines, float* out) {
  std::int64_t p = 0;
  for (; p + vector_floats <= lines.depth; p += vector_floats) {
    for (std::int64_t first = 0; first < width; first += vector_floats) {
      Words square[vector_floats];
#pragma GCC unroll 16
      for (int i = 0; i < vector_floats; ++i) {
        square[i] = *reinterpret_cast<const UnalignedWords*>(lines.at(min(first + i, lines.count - 1)) + p);
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

/// out[p * width + line] = the lines, and copies of the last where there are fewer than `width`.
template <std::int64_t width>
void pack_panel(const Lines& lines, float* out) {
  std::int64_t p = 0;
  if (lines.line_stride == 1 && lines.count >= width) {
    for (; p < lines.depth; ++p) {
      __builtin_memcpy(out + p * width, lines.data + p * lines.term_stride, width * sizeof(float));
    }
  }
  if constexpr (width % vector_floats == 0 || width < vector_floats) {
    if (lines.term_stride == 1 && p == 0) p = pack_transposed<width>(lines, out);
  }
  for (; p < lines.depth; ++p) {
    for (std::int64_t line = 0; line < width; ++line) {
      out[p * width + line] = lines.at(min(line, lines.count - 1))[p * lines.term_stride];
    }
  }
}

/// `width` lines as the registers read them.
struct Panel {
  const float* data;
  std::int64_t line_stride, term_stride;
};

/// Lines as panels, one behind the other: copied, or read where they lie when a copy would be read too few times to pay
/// for itself.
template <std::int64_t width>
class Panels {
 public:
  /// Copies to `copies`, with room for whole panels and vector_floats numbers.
  Panels(const Lines& lines, float* copies, bool in_place) : lines_(lines), copies_(copies), in_place_(in_place) {
    for (std::int64_t first = in_place ? lines.count / width * width : 0; first < lines.count; first += width) {
      Lines panel = lines;
      panel.data = lines.at(first);
      panel.count = lines.count - first;
      pack_panel<width>(panel, copies + first * lines.depth);
    }
  }

  [[nodiscard]] Panel at(std::int64_t first) const {
    if (in_place_ && first + width <= lines_.count) return {lines_.at(first), lines_.line_stride, lines_.term_stride};
    return {copies_ + first * lines_.depth, 1, width};
  }

 private:
  Lines lines_;
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
void store(const Vector (&sums)[tile_rows][panel_vectors], float* c, std::int64_t stride) {
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
  Vector sums[tile_rows][panel_vectors] = {};
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
    return target.accumulate ? store<true>(sums, target.c, target.stride) : store<false>(sums, target.c, target.stride);
  }
  float tile[tile_rows * tile_columns];
  store<false>(sums, tile, tile_columns);
  for (std::int64_t i = 0; i < target.rows; ++i) {
    float* out = target.c + i * target.stride;
    for (std::int64_t j = 0; j < target.columns; ++j) {
      out[j] = target.accumulate ? out[j] + tile[i * tile_columns + j] : tile[i * tile_columns + j];
    }
  }
}

void multiply_block(const Panels<tile_rows>& a, const Panels<tile_columns>& b, std::int64_t depth,
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

void add_bias(const Float32Matmul& product) {
  for (std::int64_t i = 0; i < product.m; ++i) {
    float* c = product.c + i * product.c_stride;
    for (std::int64_t j = 0; j < product.n; ++j) c[j] = product.accumulate ? c[j] + product.bias[j] : product.bias[j];
  }
}

void packed_matmul(const Float32Matmul& product, Scratch scratch) {
  // So few lines of the other operand that a copy would be read twice at most.
  const bool keeps_a = product.n <= 2 * tile_columns;
  const bool keeps_b = product.m <= 2 * tile_rows && product.b_column_stride == 1;
  if (product.bias != nullptr) add_bias(product);
  float* const b_copies = scratch.data + packed_block_rows * packed_block_depth + vector_floats;
  const std::int64_t room = scratch.num_floats - (b_copies - scratch.data) - vector_floats;
  const std::int64_t most_columns = room / packed_block_depth / tile_columns * tile_columns;
  for (std::int64_t column = 0; column < product.n; column += most_columns) {
    const std::int64_t columns = min(most_columns, product.n - column);
    for (std::int64_t term = 0; term < product.k; term += packed_block_depth) {
      const std::int64_t depth = min(packed_block_depth, product.k - term);
      const Panels<tile_columns> b({product.b + column * product.b_column_stride + term * product.b_row_stride,
                                    product.b_column_stride, product.b_row_stride, columns, depth},
                                   b_copies, keeps_b);
      for (std::int64_t row = 0; row < product.m; row += packed_block_rows) {
        const std::int64_t rows = min(packed_block_rows, product.m - row);
        const Panels<tile_rows> a({product.a + row * product.a_row_stride + term * product.a_column_stride,
                                   product.a_row_stride, product.a_column_stride, rows, depth},
                                  scratch.data, keeps_a);
        multiply_block(a, b, depth,
                       {product.c + row * product.c_stride + column, product.c_stride, rows, columns,
                        product.accumulate || product.bias != nullptr || term > 0});
      }
    }
  }
}

}  // namespace

void enter_packed_matmul(Kernels& table) { table.packed_matmul = packed_matmul; }

}  // namespace sft::ops::cpu::SFT_ISA
