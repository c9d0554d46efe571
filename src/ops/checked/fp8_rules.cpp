// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "ops/checked/call.hpp"

namespace sft::ops::checked {

namespace {

template <class AnyTensor>
std::vector<std::int64_t> scale_shape_of(const Call& call, const BasicFp8Matrix<AnyTensor>& x) {
  call.require(x.tiles.rows >= 0 && x.tiles.columns >= 0,
               fmt::format("tiles of {} x {} are none", x.tiles.rows, x.tiles.columns));
  return {Fp8Tiles::count(x.codes.shape[0], x.tiles.rows), Fp8Tiles::count(x.codes.shape[1], x.tiles.columns)};
}

void check_source(Call& call, const RoundToFp8& round) {
  call.require_dims("in", round.in, 2);
  call.in("in", round.in, shape_of(round.in), any_compute, Layout::strided);
}

void check_operand(Call& call, const char* codes, const char* scales, const ConstFp8Matrix& x,
                   const std::vector<std::int64_t>& shape) {
  call.in(codes, x.codes, shape, DType::uint8);
  call.in(scales, x.scales, scale_shape_of(call, x), DType::float32);
}

}  // namespace

void check_find_fp8_scales(const RoundToFp8& round) {
  Call call("find_fp8_scales");
  check_source(call, round);
  call.in("codes", round.out.codes, shape_of(round.in), DType::uint8);
  call.out("scales", round.out.scales, scale_shape_of(call, round.out), DType::float32);
  call.check_memory();
}

void check_round_to_fp8(const RoundToFp8& round) {
  Call call("round_to_fp8");
  check_source(call, round);
  call.out("codes", round.out.codes, shape_of(round.in), DType::uint8);
  call.in("scales", round.out.scales, scale_shape_of(call, round.out), DType::float32);
  call.check_memory();
}

void check_fp8_matmul(const Fp8Matmul& product) {
  Call call("fp8_matmul");
  const auto& [a, b, c, transpose_a, transpose_b, accumulate, bias] = product;
  call.require_dims("a", a.codes, 2);
  call.require_dims("c", c, 2);
  const std::int64_t num_rows = c.shape[0], num_columns = c.shape[1], depth = a.codes.shape[transpose_a ? 0 : 1];
  call.require(depth > 0, "a has no terms to sum");
  const auto shape = [](bool transpose, std::int64_t rows, std::int64_t columns) {
    return transpose ? std::vector{columns, rows} : std::vector{rows, columns};
  };
  check_operand(call, "a", "scales of a", a, shape(transpose_a, num_rows, depth));
  check_operand(call, "b", "scales of b", b, shape(transpose_b, depth, num_columns));
  call.out("c", c, shape_of(c), any_compute, Layout::strided);
  if (!bias.empty()) call.in("bias", bias, {num_columns}, any_compute);
  call.check_memory();
}

}  // namespace sft::ops::checked
