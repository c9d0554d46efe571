// SPDX-License-Identifier: Apache-2.0
#include "model/fp8_products.hpp"

#include "sft/model/fp8_buffers.hpp"

namespace sft::model {

namespace {

ops::Fp8Format format_of(Fp8Operand operand) {
  return operand == Fp8Operand::gradient ? ops::Fp8Format::e5m2 : ops::Fp8Format::e4m3;
}

ops::Fp8Tiles tiles_of(const Fp8Buffers& buffers, Fp8Operand operand, bool sums_along_rows) {
  return operand == Fp8Operand::weight ? fp8_blocks(buffers.is_blockwise())
                                       : fp8_vectors(buffers.is_blockwise(), sums_along_rows);
}

/// The operands a and b in 8-bit floats. A scale of a whole matrix is that of the slices of all ranks of tp.
void round(const Context& c, const ops::RoundToFp8& a, const ops::RoundToFp8& b) {
  for (const ops::RoundToFp8& operand : {a, b}) c.ops.find_fp8_scales(operand);
  if (!c.fp8->is_blockwise()) c.tp.max(c.fp8->scales_of_both());
  for (const ops::RoundToFp8& operand : {a, b}) c.ops.round_to_fp8(operand);
}

}  // namespace

void multiply_in_fp8(const Context& c, const ops::Matmul& product, Fp8Operand a, Fp8Operand b) {
  if (c.fp8 == nullptr) return c.ops.matmul(product);
  const ops::Fp8Matrix left = c.fp8->left(product.a.shape[0], product.a.shape[1], format_of(a),
                                          tiles_of(*c.fp8, a, /*sums_along_rows=*/product.transpose_a));
  const ops::Fp8Matrix right = c.fp8->right(product.b.shape[0], product.b.shape[1], format_of(b),
                                            tiles_of(*c.fp8, b, /*sums_along_rows=*/!product.transpose_b));
  round(c, {.out = left, .in = product.a}, {.out = right, .in = product.b});
  c.ops.fp8_matmul({.a = left,
                    .b = right,
                    .c = product.c,
                    .transpose_a = product.transpose_a,
                    .transpose_b = product.transpose_b,
                    .accumulate = product.accumulate,
                    .bias = product.bias});
}

}  // namespace sft::model
