// SPDX-License-Identifier: Apache-2.0
#include "model/fp8_products.hpp"

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

/// b, whose codes were gathered, as an operand: where it lies, or arranged. `scales` in a row.
ops::ConstFp8Matrix operand_of_codes(const Context& c, const ops::Matmul& product, const Tensor& scales) {
  constexpr ops::Fp8Format format = ops::Fp8Format::e4m3;
  const ops::Fp8Tiles tiles = tiles_of(*c.fp8, Fp8Operand::weight);
  const ConstTensor& codes = product.b;
  const std::int64_t lines = product.c.shape[1], terms = codes.shape[product.transpose_b ? 1 : 0];
  const auto [scale_rows, scale_columns] = ops::fp8_scale_shape(tiles, codes.shape[0], codes.shape[1]);
  const Tensor own_scales = scales.view({scale_rows, scale_columns});
  if (product.transpose_b && is_operand(codes, lines)) return {codes, own_scales, format, tiles};
  const ops::Fp8Matrix arranged = c.fp8->right(lines, terms, format, tiles);
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
ops::RoundToFp8 rounding_of_left(const Context& c, const ops::Matmul& product, Fp8Operand a,
                                 const GradientCodes* codes) {
  const ops::Fp8Tiles tiles = tiles_of(*c.fp8, a);
  const std::int64_t lines = product.c.shape[0], terms = product.a.shape[product.transpose_a ? 0 : 1];
  return {.out = c.fp8->left(lines, terms, format_of(a), tiles),
          .in = product.a,
          .transpose = product.transpose_a,
          .turned = codes != nullptr ? c.fp8->kept(codes->layer, terms, lines, tiles) : ops::Fp8Matrix()};
}

}  // namespace

void multiply_in_fp8(const Context& c, const ops::Matmul& product, Fp8Operand a, Fp8Operand b,
                     const Tensor& scales_of_b, GradientCodes* codes_of_a) {
  if (c.fp8 == nullptr) return c.ops.matmul(product);
  const std::int64_t terms = product.a.shape[product.transpose_a ? 0 : 1];
  const bool is_kept = codes_of_a != nullptr && codes_of_a->are_kept, is_sent = !scales_of_b.empty();
  const ops::RoundToFp8 left = rounding_of_left(c, product, a, is_kept ? nullptr : codes_of_a);
  const ops::RoundToFp8 right{.out = c.fp8->right(product.c.shape[1], terms, format_of(b), tiles_of(*c.fp8, b)),
                              .in = product.b,
                              .transpose = !product.transpose_b};
  if (finds_scales(c)) {
    if (!is_kept) c.ops.find_fp8_scale(left);
    if (!is_sent) c.ops.find_fp8_scale(right);
    if (!is_kept && !is_sent) {
      c.tp.max(c.fp8->scales_of_both());
    } else if (!is_kept || !is_sent) {
      c.tp.max(is_kept ? right.out.scales : left.out.scales);
    }
  }
  if (!is_kept) c.ops.round_to_fp8(left);
  if (!is_sent) c.ops.round_to_fp8(right);
  if (codes_of_a != nullptr) codes_of_a->are_kept = !is_kept;
  const ops::Fp8Matrix left_operand =
      is_kept ? c.fp8->kept(codes_of_a->layer, product.c.shape[0], terms, tiles_of(*c.fp8, a)) : left.out;
  c.ops.fp8_matmul({.a = left_operand,
                    .b = is_sent ? operand_of_codes(c, product, scales_of_b) : ops::ConstFp8Matrix(right.out),
                    .c = product.c,
                    .accumulate = product.accumulate,
                    .bias = product.bias});
}

}  // namespace sft::model
