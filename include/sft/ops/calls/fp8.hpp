// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ops on matrices of 8-bit floats; fp8.hpp says how these lie and how they are rounded.

#include <cstdint>

#include "sft/ops/describe.hpp"
#include "sft/ops/fp8.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// Whether rows of codes follow each other at the distance of fp8_line_codes.
[[nodiscard]] inline bool are_fp8_lines(const ConstTensor& codes) {
  return codes.shape[0] <= 1 || codes.stride0 == fp8_line_codes(codes.shape[1]);
}

/// Binds the letters of the rows and columns of the scales of a matrix.
template <class Visitor>
void describe_fp8_scale_dims(Visitor& op, char rows, char columns, Fp8Tiles tiles, std::int64_t lines,
                             std::int64_t terms) {
  const auto [num_rows, num_columns] = fp8_scale_shape(tiles, lines, terms);
  op.dim(rows, num_rows);
  op.dim(columns, num_columns);
}

/// Writes the scale that the elements of `in` ask for, of a matrix that has one for all; the codes are not touched.
struct FindFp8Scale {
  static constexpr const char* name = "find_fp8_scale";
  static constexpr Pass pass = Pass::sum_squares;
  Fp8Matrix out;
  ConstTensor in;          ///< (lines, terms) compute dtype, strided
  bool transpose = false;  ///< in is (terms, lines)

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("in", in, transpose ? "K L" : "L K", Types::any, strided);
    op.unread("codes", out.codes, "L K", Types::uint8, strided);
    op.require(are_fp8_lines(out.codes), "codes has lines that are not fp8_line_codes apart");
    op.require(out.tiles == Fp8Tiles::whole, "codes of tiles have more than one scale");
    op.out("scales", out.scales, "1 1", Types::float32);
    op.scalar("format", out.format);
    op.scalar("tiles", out.tiles);
    op.scalar("transpose", transpose);
  }
};

/// Writes the codes of the elements of `in` divided by their scales: rounded to the nearest, ties to even; an element
/// that is larger than the format's largest number, or infinite, becomes that, and NaN stays NaN. The scale of a whole
/// matrix is read, because other ranks may have had a part in it; those of tiles are found and written. Both layouts of
/// a matrix where two products need them: the codes and scales of two calls.
struct RoundToFp8 {
  static constexpr const char* name = "round_to_fp8";
  static constexpr Pass pass = Pass::copy;
  Fp8Matrix out;
  ConstTensor in;          ///< (lines, terms) compute dtype, strided
  bool transpose = false;  ///< in is (terms, lines)
  /// Codes of the elements with lines for terms, in the same format and tiles, but not in blocks, from the same pass
  /// over them; empty: none. One scale for all is written here, as it is read in `out`.
  Fp8Matrix turned{};

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("in", in, transpose ? "K L" : "L K", Types::any, strided);
    op.out("codes", out.codes, "L K", Types::uint8, strided);
    op.require(are_fp8_lines(out.codes), "codes has lines that are not fp8_line_codes apart");
    describe_fp8_scale_dims(op, 'S', 'C', out.tiles, out.codes.shape[0], out.codes.shape[1]);
    out.tiles == Fp8Tiles::whole ? op.in("scales", out.scales, "S C", Types::float32)
                                 : op.out("scales", out.scales, "S C", Types::float32);
    const Form form = turned.codes.empty() && turned.scales.empty() ? optional : contiguous;
    op.out("turned codes", turned.codes, "K L", Types::uint8, form | strided);
    describe_fp8_scale_dims(op, 'U', 'V', turned.tiles, turned.codes.shape[0], turned.codes.shape[1]);
    op.out("turned scales", turned.scales, "U V", Types::float32, form);
    if (form != optional) {
      op.require(turned.tiles == out.tiles && turned.format == out.format, "turned codes are rounded otherwise");
      op.require(turned.tiles != Fp8Tiles::blocks, "turned codes have blocks");
      op.require(are_fp8_lines(turned.codes), "turned codes has lines that are not fp8_line_codes apart");
    }
    op.scalar("format", out.format);
    op.scalar("tiles", out.tiles);
    op.scalar("turned format", turned.format);
    op.scalar("turned tiles", turned.tiles);
    op.scalar("transpose", transpose);
  }
};

/// Neighbouring elements of a matrix in E4M3, row by row: the part that a rank has of one that several share.
struct Fp8Run {
  Tensor codes;                      ///< (n) uint8
  ConstTensor in;                    ///< (n) compute dtype
  std::int64_t first;                ///< which element of the matrix is the first
  std::int64_t lines, terms;         ///< of the matrix
  Tensor scales;                     ///< those of the whole matrix: fp8_scale_shape, float32
  Fp8Tiles tiles = Fp8Tiles::whole;  ///< or blocks

  /// All but codes and scales, of which one is written.
  template <class Visitor>
  void describe_place(Visitor& op) const {
    op.in("in", in, "n", Types::any);
    op.require(tiles != Fp8Tiles::vectors, "in is of a run, which has no vectors");
    op.require(first >= 0 && first + in.shape[0] <= lines * terms, "in ends after the matrix");
    describe_fp8_scale_dims(op, 'S', 'C', tiles, lines, terms);
    op.scalar("first", first);
    op.scalar("lines", lines);
    op.scalar("terms", terms);
    op.scalar("tiles", tiles);
  }
};

/// Makes the scales of the tiles that the run has elements of as large as its elements ask for, where they are smaller:
/// after calls for all runs of a matrix, whose scales were fp8_least_scale, they are those that RoundToFp8 finds for
/// it.
struct RaiseFp8Scales {
  static constexpr const char* name = "raise_fp8_scales";
  static constexpr Pass pass = Pass::sum_squares;
  Fp8Run run;

  template <class Visitor>
  void describe(Visitor& op) const {
    run.describe_place(op);
    op.unread("codes", run.codes, "n", Types::uint8);
    op.add("scales", run.scales, "S C", Types::float32);
  }
};

/// Writes the codes of the run, as RoundToFp8 does, with scales that are read.
struct RoundFp8Run {
  static constexpr const char* name = "round_fp8_run";
  static constexpr Pass pass = Pass::copy;
  Fp8Run run;

  template <class Visitor>
  void describe(Visitor& op) const {
    run.describe_place(op);
    op.out("codes", run.codes, "n", Types::uint8);
    op.in("scales", run.scales, "S C", Types::float32);
  }
};

/// Codes of a matrix, of codes that lie as its elements did: with zeros after its lines. Its scales where it has
/// blocks.
struct ArrangeFp8 {
  static constexpr const char* name = "arrange_fp8";
  static constexpr Pass pass = Pass::copy;
  Tensor out;              ///< (lines, terms) uint8, as Fp8Matrix::codes
  ConstTensor in;          ///< (lines, terms) uint8, strided
  bool transpose = false;  ///< in is (terms, lines)
  // Scales of a matrix in blocks: fp8_scale_shape, float32; empty for others.
  Tensor out_scales{};      ///< of (lines, terms)
  ConstTensor in_scales{};  ///< of in as it lies

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("in", in, transpose ? "K L" : "L K", Types::uint8, strided);
    op.out("out", out, "L K", Types::uint8, strided);
    op.require(are_fp8_lines(out), "out has lines that are not fp8_line_codes apart");
    const Form form = in_scales.empty() && out_scales.empty() ? optional : contiguous;
    describe_fp8_scale_dims(op, 'S', 'C', Fp8Tiles::blocks, in.shape[0], in.shape[1]);
    op.in("scales of in", in_scales, "S C", Types::float32, form);
    describe_fp8_scale_dims(op, 'U', 'V', Fp8Tiles::blocks, out.shape[0], out.shape[1]);
    op.out("scales of out", out_scales, "U V", Types::float32, form);
    op.scalar("transpose", transpose);
  }
};

/// c = a b^T [+ bias] [+ c], with sums in float32. The sums have terms. Of a and b one at most is E5M2, and one at most
/// has blocks; either both are whole or none is. Nothing where c is empty.
struct Fp8Matmul {
  static constexpr const char* name = "fp8_matmul";
  ConstFp8Matrix a, b;
  Tensor c;  ///< (lines of a, lines of b) compute dtype or float32, strided
  bool accumulate = false;
  ConstTensor bias{};  ///< (columns of c) compute dtype; empty: none

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("a", a.codes, "M K", Types::uint8, strided);
    op.in("b", b.codes, "N K", Types::uint8, strided);
    accumulate ? op.add("c", c, "M N", Types::any, strided) : op.out("c", c, "M N", Types::any, strided);
    describe_fp8_scale_dims(op, 'S', 'C', a.tiles, a.codes.shape[0], a.codes.shape[1]);
    op.in("scales of a", a.scales, "S C", Types::float32);
    describe_fp8_scale_dims(op, 'U', 'V', b.tiles, b.codes.shape[0], b.codes.shape[1]);
    op.in("scales of b", b.scales, "U V", Types::float32);
    op.in("bias", bias, "N", Types::any, optional);
    op.require(are_fp8_lines(a.codes), "a has lines that are not fp8_line_codes apart");
    op.require(are_fp8_lines(b.codes), "b has lines that are not fp8_line_codes apart");
    op.require(a.codes.shape[1] > 0, "a has no terms to sum");
    op.require(a.format == Fp8Format::e4m3 || b.format == Fp8Format::e4m3, "a and b are both E5M2");
    op.require((a.tiles == Fp8Tiles::whole) == (b.tiles == Fp8Tiles::whole), "a and b have scales of other kinds");
    op.require(a.tiles != Fp8Tiles::blocks || b.tiles != Fp8Tiles::blocks, "a and b have both blocks");
    op.scalar("format of a", a.format);
    op.scalar("format of b", b.format);
    op.scalar("tiles of a", a.tiles);
    op.scalar("tiles of b", b.tiles);
    op.scalar("accumulate", accumulate);
  }
};

}  // namespace sft::ops
