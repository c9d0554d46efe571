// SPDX-License-Identifier: Apache-2.0
#include "ops/views/fp8.hpp"

#include "sft/core/ensure.hpp"

namespace sft::ops {
namespace {

static_assert(fp8_tile_side == fp8_tile);

template <class AnyTensor>
auto view(const BasicFp8Matrix<AnyTensor>& x) {
  using Result =
      BasicFp8View<typename AnyTensor::template Element<std::uint8_t>, typename AnyTensor::template Element<float>>;
  SFT_ENSURE(x.codes.dtype == DType::uint8 && x.codes.ndim == 2, "ops: a matrix of uint8 expected");
  const std::int64_t lines = x.codes.shape[0], terms = x.codes.shape[1];
  SFT_ENSURE(lines <= 1 || x.codes.stride0 == fp8_line_codes(terms), "ops: lines of 16 codes each expected");
  const auto [scale_rows, scale_columns] = fp8_scale_shape(x.tiles, lines, terms);
  SFT_ENSURE(x.scales.num_elements() == scale_rows * scale_columns, "ops: a tile has a scale");
  return Result{.codes = x.codes.template as<std::uint8_t>(),
                .scales = floats_of(x.scales),
                .lines = lines,
                .terms = terms,
                .line_codes = fp8_line_codes(terms),
                .row_scales = scale_columns,
                .tiles = x.tiles == Fp8Tiles::whole     ? Result::Tiles::whole
                         : x.tiles == Fp8Tiles::vectors ? Result::Tiles::vectors
                                                        : Result::Tiles::blocks,
                .is_e5m2 = x.format == Fp8Format::e5m2};
}

/// The elements that are rounded, each of which has a code.
template <class Round>
ConstView source(const Round& round) {
  const std::int64_t lines = round.out.codes.shape[0], terms = round.out.codes.shape[1];
  SFT_ENSURE(round.in.ndim == 2 && round.in.shape[round.transpose ? 1 : 0] == lines &&
                 round.in.shape[round.transpose ? 0 : 1] == terms,
             "ops: an element has a code");
  return view_of(round.in);
}

}  // namespace

Fp8View view_of(const Fp8Matrix& x) { return view(x); }
ConstFp8View view_of(const ConstFp8Matrix& x) { return view(x); }

ConstView source_of(const FindFp8Scale& round) { return source(round); }

Fp8Rounding view_of(const RoundToFp8& round) {
  Fp8Rounding result{view(round.out), {}, source(round), round.transpose};
  const Fp8Matrix& turned = round.turned;
  if (turned.codes.data == nullptr) return result;
  SFT_ENSURE(turned.codes.shape[0] == round.out.codes.shape[1] && turned.codes.shape[1] == round.out.codes.shape[0],
             "ops: what is turned has lines for terms");
  SFT_ENSURE(turned.tiles == round.out.tiles && turned.format == round.out.format, "ops: both are rounded alike");
  SFT_ENSURE(turned.tiles != Fp8Tiles::blocks, "ops: codes of blocks are turned by arrange_fp8");
  result.turned = view(turned);
  return result;
}

Fp8Arrangement view_of(const ArrangeFp8& arrange) {
  const auto& [out, in, transpose, out_scales, in_scales] = arrange;
  SFT_ENSURE(out.dtype == DType::uint8 && in.dtype == DType::uint8 && out.ndim == 2 && in.ndim == 2,
             "ops: matrices of uint8 expected");
  SFT_ENSURE(in.shape[transpose ? 1 : 0] == out.shape[0] && in.shape[transpose ? 0 : 1] == out.shape[1],
             "ops: a code has a place");
  const bool has_scales = !out_scales.empty();
  const auto in_shape = fp8_scale_shape(Fp8Tiles::blocks, in.shape[0], in.shape[1]),
             out_shape = fp8_scale_shape(Fp8Tiles::blocks, out.shape[0], out.shape[1]);
  SFT_ENSURE(has_scales == !in_scales.empty(), "ops: scales come of scales");
  SFT_ENSURE(!has_scales || (in_scales.num_elements() == in_shape[0] * in_shape[1] &&
                             out_scales.num_elements() == out_shape[0] * out_shape[1]),
             "ops: a block has a scale");
  return {.out = out.as<std::uint8_t>(),
          .in = in.as<std::uint8_t>(),
          .lines = out.shape[0],
          .terms = out.shape[1],
          .line_codes = fp8_line_codes(out.shape[1]),
          .in_stride = in.shape[0] > 1 ? in.stride0 : in.shape[1],
          .transpose = transpose,
          .out_scales = has_scales ? floats_of(out_scales) : nullptr,
          .in_scales = has_scales ? floats_of(in_scales) : nullptr,
          .out_row_scales = out_shape[1],
          .in_row_scales = in_shape[1]};
}

Fp8RunView view_of(const Fp8Run& run) {
  const auto& [codes, in, first, lines, terms, scales, tiles] = run;
  SFT_ENSURE(codes.dtype == DType::uint8 && codes.ndim == 1 && in.ndim == 1 && codes.shape[0] == in.shape[0],
             "ops: an element has a code");
  SFT_ENSURE(first >= 0 && first + in.shape[0] <= lines * terms, "ops: a run lies in its matrix");
  SFT_ENSURE(tiles != Fp8Tiles::vectors, "ops: a run of a matrix with one scale, or of blocks");
  const auto [scale_rows, scale_columns] = fp8_scale_shape(tiles, lines, terms);
  SFT_ENSURE(scales.num_elements() == scale_rows * scale_columns, "ops: a tile has a scale");
  return {.codes = codes.as<std::uint8_t>(),
          .in = flat_view_of(in),
          .first = first,
          .terms = terms,
          .scales = floats_of(scales),
          .row_scales = scale_columns,
          .is_whole = tiles == Fp8Tiles::whole};
}

void ensure_fits(const Fp8Matmul& product) {
  const auto& [a, b, c, accumulate, bias] = product;
  for (const ConstFp8Matrix* x : {&a, &b}) (void)view(*x);
  SFT_ENSURE(c.ndim == 2 && c.shape[0] == a.codes.shape[0] && c.shape[1] == b.codes.shape[0], "fp8_matmul: shapes fit");
  SFT_ENSURE(a.codes.shape[1] == b.codes.shape[1] && a.codes.shape[1] > 0, "fp8_matmul: shapes fit");
  SFT_ENSURE(a.format == Fp8Format::e4m3 || b.format == Fp8Format::e4m3, "fp8_matmul: one operand is E4M3");
  SFT_ENSURE((a.tiles == Fp8Tiles::whole) == (b.tiles == Fp8Tiles::whole), "fp8_matmul: scales fit");
  SFT_ENSURE(a.tiles != Fp8Tiles::blocks || b.tiles != Fp8Tiles::blocks, "fp8_matmul: scales fit");
}

}  // namespace sft::ops
