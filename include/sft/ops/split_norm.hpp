// SPDX-License-Identifier: Apache-2.0
#pragma once
// RMSNorm (Zhang & Sennrich 2019) over rows of which every rank of a group has some columns, as of all heads of a token
// together (OLMo 2), in steps: between two of them the caller adds up a number for each row over the ranks. Tensors (T,
// N) have the compute dtype and may be strided; N are the columns of this rank.

#include <cstdint>

#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// The weight of a norm, float32 or of the compute dtype: what is normed is multiplied by `tensor` + `offset`. Gemma
/// stores it without the 1, which is the offset then.
struct NormWeight {
  NormWeight(const ConstTensor& weight, float added = 0.0F) : tensor(weight), offset(added) {}  // NOLINT: is a weight
  NormWeight(const Tensor& weight, float added = 0.0F) : tensor(weight), offset(added) {}       // NOLINT: is a weight

  ConstTensor tensor;
  float offset;
};

/// rstd = 1 / sqrt(squares / all_columns + epsilon); y = x * rstd * weight. See Backend::split_norm_squares.
struct SplitNormForward {
  Tensor y;             ///< (T, N)
  Tensor rstd;          ///< (T) float32
  ConstTensor x;        ///< (T, N)
  ConstTensor squares;  ///< (T) float32, of all ranks
  NormWeight weight;    ///< (N)
  /// Columns of all ranks. Some may hold the same ones: then all of these count, as their squares do.
  std::int64_t all_columns;
  float epsilon;
};

/// dots = sum over N of dy * weight * n, dweight += sum over T of dy * n, with n = x * rstd.
struct SplitNormDots {
  Tensor dots;     ///< (T) float32
  Tensor dweight;  ///< (N) float32; empty: not asked for
  ConstTensor dy;  ///< (T, N)
  ConstTensor x;   ///< (T, N)
  ConstTensor rstd;
  NormWeight weight;  ///< (N)
};

/// dx = rstd * (dy * weight - n * dots / all_columns). Where ranks hold the same columns, each has a part of their
/// gradients, dy and dx.
struct SplitNormBackward {
  Tensor dx;          ///< (T, N), may be dy
  ConstTensor dy;     ///< (T, N)
  ConstTensor x;      ///< (T, N)
  ConstTensor rstd;   ///< (T) float32
  ConstTensor dots;   ///< (T) float32, of all ranks
  NormWeight weight;  ///< (N)
  std::int64_t all_columns;
};

}  // namespace sft::ops
