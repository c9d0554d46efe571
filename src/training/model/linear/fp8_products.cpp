// SPDX-License-Identifier: Apache-2.0
#include "model/linear/fp8_products.hpp"

#include <algorithm>

#include "sft/model/linear/fp8_buffers.hpp"

namespace sft::model {

namespace {

ops::Fp8Format format_of(Fp8Operand operand) {
  return operand == Fp8Operand::gradient ? ops::Fp8Format::e5m2 : ops::Fp8Format::e4m3;
}

ops::Fp8Tiles tiles_of(const Fp8Buffers& buffers, Fp8Operand operand) {
  if (!buffers.is_blockwise()) return ops::Fp8Tiles::whole;
  return operand == Fp8Operand::weight ? ops::Fp8Tiles::blocks : ops::Fp8Tiles::vectors;
}

/// Whether codes lie as those of an operand of so many lines do, in memory that others follow.
bool is_operand(const ConstTensor& codes, std::int64_t lines) {
  constexpr std::uintptr_t alignment = 16;
  constexpr std::int64_t line_multiple = 4;
  return codes.stride0 == ops::fp8_line_codes(codes.shape[1]) && lines % line_multiple == 0 &&
         reinterpret_cast<std::uintptr_t>(codes.data) % alignment == 0;
}

/// b, whose codes were gathered, as an operand: where it lies, or arranged. `scales` in a row.
ops::ConstFp8Matrix operand_of_codes(const Context& c, const ops::Matmul& product, const Tensor& scales, Fp8Room room) {
  constexpr ops::Fp8Format format = ops::Fp8Format::e4m3;
  const ops::Fp8Tiles tiles = tiles_of(*c.fp8, Fp8Operand::weight);
  const ConstTensor& codes = product.b;
  const std::int64_t lines = codes.shape[product.transpose_b ? 0 : 1], terms = codes.shape[product.transpose_b ? 1 : 0];
  const auto [scale_rows, scale_columns] = ops::fp8_scale_shape(tiles, codes.shape[0], codes.shape[1]);
  const Tensor own_scales = scales.view({scale_rows, scale_columns});
  if (product.transpose_b && is_operand(codes, lines)) return {codes, own_scales, format, tiles};
  const ops::Fp8Matrix arranged = c.fp8->right(room).matrix(lines, terms, format, tiles);
  if (tiles == ops::Fp8Tiles::whole) {
    c.ops.run(ops::ArrangeFp8{.out = arranged.codes, .in = codes, .transpose = !product.transpose_b});
    return {arranged.codes, own_scales, format, tiles};
  }
  c.ops.run(ops::ArrangeFp8{.out = arranged.codes,
                            .in = codes,
                            .transpose = !product.transpose_b,
                            .out_scales = arranged.scales,
                            .in_scales = own_scales});
  return arranged;
}

/// An operand as the product reads it, (lines, terms).
struct Operand {
  ops::ConstFp8Matrix matrix;
  ops::RoundToFp8 rounding = {};  ///< of which it comes,
  bool is_rounded = false;        ///< unless it is there already
};

/// `in`, (lines, terms) unless `transpose`, in `memory`; what is kept for a gradient's second product comes of it too.
Operand operand_of(const Context& c, const ConstTensor& in, bool transpose, Fp8Operand kind, const Fp8Memory& memory,
                   GradientCodes* codes) {
  const std::int64_t lines = in.shape[transpose ? 1 : 0], terms = in.shape[transpose ? 0 : 1];
  const ops::Fp8Format format = format_of(kind);
  const ops::Fp8Tiles tiles = tiles_of(*c.fp8, kind);
  const bool is_kept = kind == Fp8Operand::gradient && codes != nullptr;
  if (is_kept && codes->are_kept) return {.matrix = codes->memory.matrix(lines, terms, format, tiles)};
  const ops::Fp8Matrix out = memory.matrix(lines, terms, format, tiles);
  return {.matrix = out,
          .rounding = {.out = out,
                       .in = in,
                       .transpose = transpose,
                       .turned = is_kept ? codes->memory.matrix(terms, lines, format, tiles) : ops::Fp8Matrix()},
          .is_rounded = true};
}

/// Those of `tensorwise`; those of tiles are found with the codes.
void find_scales(const Context& c, const Operand& left, const Operand& right, Fp8Room room) {
  if (c.fp8->is_blockwise()) return;
  for (const Operand* x : {&left, &right}) {
    if (!x->is_rounded) continue;
    const ops::RoundToFp8& rounding = x->rounding;
    c.ops.run(ops::FindFp8Scale{rounding.out, rounding.in, rounding.transpose});
  }
  if (left.is_rounded && right.is_rounded) {
    c.tp.max(c.fp8->scales_of_both(room));
  } else if (left.is_rounded || right.is_rounded) {
    c.tp.max((left.is_rounded ? left : right).rounding.out.scales);
  }
}

}  // namespace

GradientCodes gradient_codes(const Context& c, LayerOfTwo layer) {
  return c.fp8 == nullptr ? GradientCodes() : GradientCodes{.memory = c.fp8->kept(layer)};
}

Fp8Operands round_operands(const Context& c, const ops::Matmul& product, Fp8Operand a, Fp8Operand b,
                           const Tensor& scales_of_b, GradientCodes* codes, Fp8Room room) {
  const bool is_sent = !scales_of_b.empty();
  const Operand left = operand_of(c, product.a, product.transpose_a, a, c.fp8->left(room), codes);
  const Operand right =
      is_sent ? Operand{} : operand_of(c, product.b, !product.transpose_b, b, c.fp8->right(room), codes);
  find_scales(c, left, right, room);
  for (const Operand* x : {&left, &right}) {
    if (x->is_rounded) c.ops.run(x->rounding);
  }
  if (codes != nullptr) codes->are_kept = !codes->are_kept;
  return {left.matrix, is_sent ? operand_of_codes(c, product, scales_of_b, room) : right.matrix};
}

void multiply_in_fp8(const Context& c, const ops::Matmul& product, Fp8Operand a, Fp8Operand b,
                     const Tensor& scales_of_b, GradientCodes* codes) {
  if (c.fp8 == nullptr) return c.ops.run(product);
  const Fp8Operands operands = round_operands(c, product, a, b, scales_of_b, codes);
  c.ops.run(ops::Fp8Matmul{
      .a = operands.left, .b = operands.right, .c = product.c, .accumulate = product.accumulate, .bias = product.bias});
}

void multiply_columns_in_fp8(const Context& c, const Fp8Operands& operands, std::int64_t begin, const Tensor& columns,
                             const Tensor& bias) {
  const std::int64_t end = begin + columns.shape[1];
  const bool has_blocks = operands.right.tiles == ops::Fp8Tiles::blocks;
  for (std::int64_t line = begin; line < end;) {
    // Blocks are those of the whole matrix: lines that begin within one are a product of their own up to its end.
    const std::int64_t in_block = has_blocks ? line % ops::fp8_tile : 0;
    const std::int64_t count = in_block > 0 ? std::min(ops::fp8_tile - in_block, end - line) : end - line;
    ops::ConstFp8Matrix right = operands.right;
    right.codes = right.codes.rows(line, count);
    if (has_blocks) {
      right.scales = right.scales.rows(line / ops::fp8_tile, (count + ops::fp8_tile - 1) / ops::fp8_tile);
    }
    c.ops.run(ops::Fp8Matmul{.a = operands.left,
                             .b = right,
                             .c = columns.columns(line - begin, count),
                             .bias = bias.empty() ? bias : bias.rows(line - begin, count)});
    line += count;
  }
}

}  // namespace sft::model
