// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a weight whose rows have a magnitude of their own needs (DoRA, Liu et al. 2024): sums of products along rows and
// columns, factors that follow from norms of rows, and columns that are scaled. The four ops; between sums and factors
// the caller adds up what other ranks have of the same rows.
//
// Legend: T tokens, N rows of the weight, which are columns of what it gives; M any.

#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// out = or, with `accumulate`, += (in - bias) * (factors + shift), column by column.
struct ScaleColumns {
  Tensor out;           ///< (T, N) float32 or bf16, strided; may be in
  ConstTensor in;       ///< (T, N) float32 or bf16, strided
  ConstTensor factors;  ///< (N) float32
  float shift = 0.0F;
  ConstTensor bias{};  ///< (N) float32 or bf16; empty: zero
  bool accumulate = false;
};

/// sums += factors * the sums of a * b over the rows.
struct ColumnProducts {
  Tensor sums;          ///< (N) float32
  ConstTensor a, b;     ///< (T, N) float32 or bf16, both the same, strided; may be one
  ConstTensor factors;  ///< (N) float32
};

/// sums += factor * the sums of a * b over the columns.
struct RowProducts {
  Tensor sums;       ///< (N) float32
  ConstTensor a, b;  ///< (N, M) float32 or bf16, strided; may be one
  float factor = 1.0F;
};

/// norms = sqrt(squares), rounded to the dtype of the magnitudes; factors = magnitudes / norms, and inverse_norms = 1 /
/// norms. Both are 0 where a norm is 0.
struct MagnitudeFactors {
  Tensor factors, inverse_norms;  ///< (N) float32
  ConstTensor magnitudes;         ///< (N) float32 or bf16; may be the squares
  ConstTensor squares;            ///< (N) float32
};

}  // namespace sft::ops
