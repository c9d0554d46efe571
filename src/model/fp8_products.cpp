// SPDX-License-Identifier: Apache-2.0
#include "model/fp8_products.hpp"

#include <algorithm>

#include "sft/model/fp8_buffers.hpp"

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

std::int64_t terms_of(const ops::Matmul& product) { return product.a.shape[product.transpose_a ? 0 : 1]; }

/// b, whose codes were gathered, as an operand: where it lies, or arranged. `scales` in a row.
ops::ConstFp8Matrix operand_of_codes(const Context& c, const ops::Matmul& product, const Tensor& scales, Fp8Room room) {
  constexpr ops::Fp8Format format = ops::Fp8Format::e4m3;
  const ops::Fp8Tiles tiles = tiles_of(*c.fp8, Fp8Operand::weight);
  const ConstTensor& codes = product.b;
  const std::int64_t lines = codes.shape[product.transpose_b ? 0 : 1], terms = terms_of(product);
  const auto [scale_rows, scale_columns] = ops::fp8_scale_shape(tiles, codes.shape[0], codes.shape[1]);
  const Tensor own_scales = scales.view({scale_rows, scale_columns});
  if (product.transpose_b && is_operand(codes, lines)) return {codes, own_scales, format, tiles};
  const ops::Fp8Matrix arranged = c.fp8->right(room, lines, terms, format, tiles);
  if (tiles == ops::Fp8Tiles::whole) {
    c.ops.arrange_fp8({.out = arranged.codes, .in = codes, .transpose = !product.transpose_b});
    return {arranged.codes, own_scales, format, tiles};
  }
  c.ops.arrange_fp8({.out = arranged.codes,
                     .in = codes,
                     .transpose = !product.transpose_b,
                     .out_scales = arranged.scales,
                     .in_scales = own_scales});
  return arranged;
}

/// Where no scale is asked for: those of tiles are found with the codes.
bool finds_scales(const Context& c) { return !c.fp8->is_blockwise(); }

/// The left operand, before it is rounded; of `codes`, if not null, what is kept for the second product is rounded too.
ops::RoundToFp8 rounding_of_left(const Context& c, const ops::Matmul& product, Fp8Operand a, const GradientCodes* codes,
                                 Fp8Room room) {
  const ops::Fp8Tiles tiles = tiles_of(*c.fp8, a);
  const std::int64_t lines = product.a.shape[product.transpose_a ? 1 : 0], terms = terms_of(product);
  return {.out = c.fp8->left(room, lines, terms, format_of(a), tiles),
          .in = product.a,
          .transpose = product.transpose_a,
          .turned = codes != nullptr ? c.fp8->kept(codes->layer, terms, lines, tiles) : ops::Fp8Matrix()};
}

}  // namespace

Fp8Operands round_operands(const Context& c, const ops::Matmul& product, Fp8Operand a, Fp8Operand b,
                           const Tensor& scales_of_b, GradientCodes* codes_of_a, Fp8Room room) {
  const bool is_kept = codes_of_a != nullptr && codes_of_a->are_kept, is_sent = !scales_of_b.empty();
  const ops::RoundToFp8 left = rounding_of_left(c, product, a, is_kept ? nullptr : codes_of_a, room);
  const std::int64_t lines_of_b = product.b.shape[product.transpose_b ? 0 : 1], terms = terms_of(product);
  const ops::RoundToFp8 right{.out = c.fp8->right(room, lines_of_b, terms, format_of(b), tiles_of(*c.fp8, b)),
                              .in = product.b,
                              .transpose = !product.transpose_b};
  if (finds_scales(c)) {
    if (!is_kept) c.ops.find_fp8_scale(left);
    if (!is_sent) c.ops.find_fp8_scale(right);
    if (!is_kept && !is_sent) {
      c.tp.max(c.fp8->scales_of_both(room));
    } else if (!is_kept || !is_sent) {
      c.tp.max(is_kept ? right.out.scales : left.out.scales);
    }
  }
  if (!is_kept) c.ops.round_to_fp8(left);
  if (!is_sent) c.ops.round_to_fp8(right);
  if (codes_of_a != nullptr) codes_of_a->are_kept = !is_kept;
  const std::int64_t lines_of_a = left.out.codes.shape[0];
  return {is_kept ? c.fp8->kept(codes_of_a->layer, lines_of_a, terms, tiles_of(*c.fp8, a)) : left.out,
          is_sent ? operand_of_codes(c, product, scales_of_b, room) : ops::ConstFp8Matrix(right.out)};
}

void multiply_in_fp8(const Context& c, const ops::Matmul& product, Fp8Operand a, Fp8Operand b,
                     const Tensor& scales_of_b, GradientCodes* codes_of_a) {
  if (c.fp8 == nullptr) return c.ops.matmul(product);
  const Fp8Operands operands = round_operands(c, product, a, b, scales_of_b, codes_of_a);
  c.ops.fp8_matmul({.a = operands.left,
                    .b = operands.right,
                    .c = product.c,
                    .accumulate = product.accumulate,
                    .bias = product.bias});
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
    c.ops.fp8_matmul({.a = operands.left,
                      .b = right,
                      .c = columns.columns(line - begin, count),
                      .bias = bias.empty() ? bias : bias.rows(line - begin, count)});
    line += count;
  }
}

}  // namespace sft::model
