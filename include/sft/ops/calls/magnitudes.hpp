// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ops of a weight whose rows have a magnitude of their own (DoRA, Liu et al. 2024): sums of products along rows and
// columns, factors that follow from norms of rows, and columns that are scaled. Between sums and factors the caller
// adds up the parts that other ranks have of the same rows.
//
// Legend: T tokens, N rows of the weight, which are columns of its product; M any.

#include "sft/ops/describe.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// out = or, with `accumulate`, += (in - bias) * (factors + shift), column by column.
struct ScaleColumns {
  static constexpr const char* name = "scale_columns";
  static constexpr Pass pass = Pass::add;
  Tensor out;           ///< (T, N) float32 or bf16, strided; may be in
  ConstTensor in;       ///< (T, N) float32 or bf16, strided
  ConstTensor factors;  ///< (N) float32
  float shift = 0.0F;
  ConstTensor bias{};  ///< (N) float32 or bf16; empty: zero
  bool accumulate = false;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("in", in, "T N", Types::any, strided);
    accumulate ? op.add("out", out, "T N", Types::any, strided) : op.out("out", out, "T N", Types::any, strided);
    op.in("factors", factors, "N", Types::float32);
    op.in("bias", bias, "N", Types::any, optional);
    op.scalar("shift", shift);
    op.scalar("accumulate", accumulate);
    op.may_be("out", "in");
  }
};

/// sums += factors * the sums of a * b over the rows.
struct AddColumnProducts {
  static constexpr const char* name = "add_column_products";
  static constexpr Pass pass = Pass::add;
  Tensor sums;          ///< (N) float32
  ConstTensor a, b;     ///< (T, N) float32 or bf16, both the same, strided; may be one
  ConstTensor factors;  ///< (N) float32

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("a", a, "T N", Types::compute, strided);
    op.in("b", b, "T N", Types::compute, strided);
    op.in("factors", factors, "N", Types::float32);
    op.add("sums", sums, "N", Types::float32);
  }
};

/// sums += factor * the sums of a * b over the columns.
struct AddRowProducts {
  static constexpr const char* name = "add_row_products";
  static constexpr Pass pass = Pass::add;
  Tensor sums;       ///< (N) float32
  ConstTensor a, b;  ///< (N, M) float32 or bf16, strided; may be one
  float factor = 1.0F;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("a", a, "N M", Types::any, strided);
    op.in("b", b, "N M", Types::any, strided);
    op.add("sums", sums, "N", Types::float32);
    op.scalar("factor", factor);
  }
};

/// norms = sqrt(squares), rounded to the dtype of the magnitudes; factors = magnitudes / norms, and inverse_norms = 1 /
/// norms. Both are 0 where a norm is 0.
struct MagnitudeFactors {
  static constexpr const char* name = "magnitude_factors";
  static constexpr Pass pass = Pass::add;
  Tensor factors, inverse_norms;  ///< (N) float32
  ConstTensor magnitudes;         ///< (N) float32 or bf16; may be the squares
  ConstTensor squares;            ///< (N) float32

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("squares", squares, "N", Types::float32);
    op.in("magnitudes", magnitudes, "N", Types::any);
    op.out("factors", factors, "N", Types::float32);
    op.out("inverse_norms", inverse_norms, "N", Types::float32);
  }
};

}  // namespace sft::ops
