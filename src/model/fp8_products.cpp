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

}  // namespace

void multiply_in_fp8(const Context& c, const ops::Matmul& product, Fp8Operand a, Fp8Operand b) {
  if (c.fp8 == nullptr) return c.ops.matmul(product);
  const std::int64_t terms = product.a.shape[product.transpose_a ? 0 : 1];
  const ops::RoundToFp8 left{.out = c.fp8->left(product.c.shape[0], terms, format_of(a), tiles_of(*c.fp8, a)),
                             .in = product.a,
                             .transpose = product.transpose_a},
      right{.out = c.fp8->right(product.c.shape[1], terms, format_of(b), tiles_of(*c.fp8, b)),
            .in = product.b,
            .transpose = !product.transpose_b};
  if (!c.fp8->is_blockwise()) {
    c.ops.find_fp8_scale(left);
    c.ops.find_fp8_scale(right);
    c.tp.max(c.fp8->scales_of_both());
  }
  c.ops.round_to_fp8(left);
  c.ops.round_to_fp8(right);
  c.ops.fp8_matmul(
      {.a = left.out, .b = right.out, .c = product.c, .accumulate = product.accumulate, .bias = product.bias});
}

}  // namespace sft::model
