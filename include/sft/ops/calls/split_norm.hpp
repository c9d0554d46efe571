// SPDX-License-Identifier: Apache-2.0
#pragma once
// RMSNorm (Zhang & Sennrich 2019) over rows of which every rank of a group has some columns, as of all heads of a token
// together (OLMo 2), in steps: between two of them the caller adds up a number for each row over the ranks. Tensors (T,
// N) have the compute dtype and may be strided; N are the columns of this rank.

#include <cstdint>

#include "sft/ops/describe.hpp"
#include "sft/ops/norm_weight.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// squares = the sum over N of x^2.
struct SplitNormSquares {
  static constexpr const char* name = "split_norm_squares";
  static constexpr Pass pass = Pass::norm_forward;
  Tensor squares;  ///< (T) float32
  ConstTensor x;   ///< (T, N)

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("x", x, "T N", Types::compute, strided);
    op.out("squares", squares, "T", Types::float32);
  }
};

/// rstd = 1 / sqrt(squares / all_columns + epsilon); y = x * rstd * weight.
struct SplitNormForward {
  static constexpr const char* name = "split_norm_forward";
  static constexpr Pass pass = Pass::norm_forward;
  Tensor y;             ///< (T, N)
  Tensor rstd;          ///< (T) float32
  ConstTensor x;        ///< (T, N)
  ConstTensor squares;  ///< (T) float32, of all ranks
  NormWeight weight;    ///< (N)
  /// Columns of all ranks. Some may hold the same ones: then all of these count, as their squares do.
  std::int64_t all_columns;
  float epsilon;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("x", x, "T N", Types::compute, strided);
    op.out("y", y, "T N", Types::compute, strided);
    op.out("rstd", rstd, "T", Types::float32);
    op.in("squares", squares, "T", Types::float32);
    weight.describe(op, "N");
    op.scalar("all_columns", all_columns);
    op.scalar("epsilon", epsilon);
    op.require(all_columns >= x.shape[1], "all_columns is less than the columns of one rank");
  }
};

/// dots = sum over N of dy * weight * n, dweight += sum over T of dy * n, with n = x * rstd.
struct SplitNormDots {
  static constexpr const char* name = "split_norm_dots";
  static constexpr Pass pass = Pass::norm_backward;
  Tensor dots;        ///< (T) float32
  Tensor dweight;     ///< (N) float32; empty: not asked for
  ConstTensor dy;     ///< (T, N)
  ConstTensor x;      ///< (T, N)
  ConstTensor rstd;   ///< (T) float32
  NormWeight weight;  ///< (N)

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("x", x, "T N", Types::compute, strided);
    op.out("dots", dots, "T", Types::float32);
    op.add("dweight", dweight, "N", Types::float32, optional);
    op.in("dy", dy, "T N", Types::compute, strided);
    op.in("rstd", rstd, "T", Types::float32);
    weight.describe(op, "N");
  }
};

/// dx = rstd * (dy * weight - n * dots / all_columns). Where ranks hold the same columns, each has a part of their
/// gradients, dy and dx.
struct SplitNormBackward {
  static constexpr const char* name = "split_norm_backward";
  static constexpr Pass pass = Pass::norm_backward;
  Tensor dx;          ///< (T, N), may be dy
  ConstTensor dy;     ///< (T, N)
  ConstTensor x;      ///< (T, N)
  ConstTensor rstd;   ///< (T) float32
  ConstTensor dots;   ///< (T) float32, of all ranks
  NormWeight weight;  ///< (N)
  std::int64_t all_columns;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("x", x, "T N", Types::compute, strided);
    op.out("dx", dx, "T N", Types::compute, strided);
    op.in("dy", dy, "T N", Types::compute, strided);
    op.in("rstd", rstd, "T", Types::float32);
    op.in("dots", dots, "T", Types::float32);
    weight.describe(op, "N");
    op.scalar("all_columns", all_columns);
    op.may_be("dx", "dy");
    op.require(all_columns >= x.shape[1], "all_columns is less than the columns of one rank");
  }
};

}  // namespace sft::ops
