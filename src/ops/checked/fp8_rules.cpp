// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "ops/checked/call.hpp"

namespace sft::ops::checked {

namespace {

std::vector<std::int64_t> scale_shape_of(Fp8Tiles tiles, std::int64_t lines, std::int64_t terms) {
  const auto [rows, columns] = fp8_scale_shape(tiles, lines, terms);
  return {rows, columns};
}

template <class AnyTensor>
std::vector<std::int64_t> scale_shape_of(const BasicFp8Matrix<AnyTensor>& x) {
  return scale_shape_of(x.tiles, x.codes.shape[0], x.codes.shape[1]);
}

void check_lines(Call& call, const char* name, const ConstTensor& codes) {
  call.require_dims(name, codes, 2);
  const std::int64_t wanted = fp8_line_codes(codes.shape[1]);
  call.require(codes.shape[0] <= 1 || codes.stride0 == wanted,
               fmt::format("{} has lines of {} codes, not {}", name, codes.stride0, wanted));
}

std::vector<std::int64_t> shape_of_codes(const RoundToFp8& round) {
  const ConstTensor& in = round.in;
  return round.transpose ? std::vector{in.shape[1], in.shape[0]} : shape_of(in);
}

void check_source(Call& call, const RoundToFp8& round) {
  call.require_dims("in", round.in, 2);
  call.in("in", round.in, shape_of(round.in), any_compute, Layout::strided);
  check_lines(call, "codes", round.out.codes);
}

void check_operand(Call& call, const char* codes, const char* scales, const ConstFp8Matrix& x,
                   const std::vector<std::int64_t>& shape) {
  check_lines(call, codes, x.codes);
  call.in(codes, x.codes, shape, DType::uint8, Layout::strided);
  call.in(scales, x.scales, scale_shape_of(x), DType::float32);
}

void check_place(Call& call, const Fp8Run& run) {
  call.require_dims("in", run.in, 1);
  call.require(run.tiles != Fp8Tiles::vectors, "a run has no vectors");
  call.require(run.first >= 0 && run.first + run.in.shape[0] <= run.lines * run.terms,
               fmt::format("in ends behind a matrix of {} x {}", run.lines, run.terms));
  call.in("in", run.in, shape_of(run.in), any_compute);
}

}  // namespace

void check_find_fp8_scale(const RoundToFp8& round) {
  Call call("find_fp8_scale");
  check_source(call, round);
  call.require(round.out.tiles == Fp8Tiles::whole, "codes of tiles have more than one scale");
  call.in("codes", round.out.codes, shape_of_codes(round), DType::uint8, Layout::strided);
  call.out("scales", round.out.scales, scale_shape_of(round.out), DType::float32);
  call.check_memory();
}

void check_round_to_fp8(const RoundToFp8& round) {
  Call call("round_to_fp8");
  check_source(call, round);
  call.out("codes", round.out.codes, shape_of_codes(round), DType::uint8, Layout::strided);
  if (round.out.tiles == Fp8Tiles::whole) {
    call.in("scales", round.out.scales, scale_shape_of(round.out), DType::float32);
  } else {
    call.out("scales", round.out.scales, scale_shape_of(round.out), DType::float32);
  }
  const Fp8Matrix& turned = round.turned;
  if (!turned.codes.empty() || !turned.scales.empty()) {
    call.require(turned.tiles == round.out.tiles && turned.format == round.out.format, "turned is rounded otherwise");
    call.require(turned.tiles != Fp8Tiles::blocks, "turned has blocks");
    call.require_dims("turned codes", turned.codes, 2);
    check_lines(call, "turned codes", turned.codes);
    call.out("turned codes", turned.codes, {round.out.codes.shape[1], round.out.codes.shape[0]}, DType::uint8,
             Layout::strided);
    call.out("turned scales", turned.scales, scale_shape_of(turned), DType::float32);
  }
  call.check_memory();
}

void check_raise_fp8_scales(const Fp8Run& run) {
  Call call("raise_fp8_scales");
  check_place(call, run);
  call.in("codes", run.codes, shape_of(run.in), DType::uint8);
  call.out("scales", run.scales, scale_shape_of(run.tiles, run.lines, run.terms), DType::float32);
  call.check_memory();
}

void check_round_fp8_run(const Fp8Run& run) {
  Call call("round_fp8_run");
  check_place(call, run);
  call.out("codes", run.codes, shape_of(run.in), DType::uint8);
  call.in("scales", run.scales, scale_shape_of(run.tiles, run.lines, run.terms), DType::float32);
  call.check_memory();
}

void check_arrange_fp8(const ArrangeFp8& arrange) {
  Call call("arrange_fp8");
  const auto& [out, in, transpose, out_scales, in_scales] = arrange;
  call.require_dims("in", in, 2);
  call.require_dims("out", out, 2);
  check_lines(call, "out", out);
  call.in("in", in, shape_of(in), DType::uint8, Layout::strided);
  call.out("out", out, transpose ? std::vector{in.shape[1], in.shape[0]} : shape_of(in), DType::uint8, Layout::strided);
  if (!in_scales.empty() || !out_scales.empty()) {
    call.in("scales of in", in_scales, scale_shape_of(Fp8Tiles::blocks, in.shape[0], in.shape[1]), DType::float32);
    call.out("scales of out", out_scales, scale_shape_of(Fp8Tiles::blocks, out.shape[0], out.shape[1]), DType::float32);
  }
  call.check_memory();
}

void check_fp8_matmul(const Fp8Matmul& product) {
  Call call("fp8_matmul");
  const auto& [a, b, c, accumulate, bias] = product;
  call.require_dims("a", a.codes, 2);
  call.require_dims("c", c, 2);
  const std::int64_t depth = a.codes.shape[1];
  call.require(depth > 0, "a has no terms to sum");
  call.require(a.format == Fp8Format::e4m3 || b.format == Fp8Format::e4m3, "a and b are both E5M2");
  call.require((a.tiles == Fp8Tiles::whole) == (b.tiles == Fp8Tiles::whole), "a and b have scales of other kinds");
  call.require(a.tiles != Fp8Tiles::blocks || b.tiles != Fp8Tiles::blocks, "a and b have both blocks");
  check_operand(call, "a", "scales of a", a, {c.shape[0], depth});
  check_operand(call, "b", "scales of b", b, {c.shape[1], depth});
  call.out("c", c, shape_of(c), any_compute, Layout::strided);
  if (!bias.empty()) call.in("bias", bias, {c.shape[1]}, any_compute);
  call.check_memory();
}

}  // namespace sft::ops::checked
