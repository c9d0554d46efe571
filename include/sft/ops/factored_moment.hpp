// SPDX-License-Identifier: Apache-2.0
#pragma once
// Steps of Adafactor (Shazeer & Stern 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost"): of the
// second moment of a matrix the means of its rows and those of its columns are kept, and that of an element is taken to
// be their product, divided by the mean of all rows. The four ops of a step; between them the caller adds up sums of
// the same matrix that were formed on other ranks.
//
// Legend: R rows and C columns of a part of a matrix, the rows of which lie one behind the other; a part of a vector is
// a row. Sums are float64, so that they hardly depend on the order of parts.

#include <cstdint>

#include "sft/ops/stochastic_rounding.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// Squares of (scale x), summed along both dims.
struct SquareSums {
  ConstTensor x;         ///< (R, C) float32
  double scale;          ///< clipping factor
  Tensor rows, columns;  ///< (R), (C) float64, "+="; empty: not asked for
};

/// moment = beta2 moment + (1 - beta2) (sums / count + epsilon), and the factors that follow from it.
struct MomentFactors {
  Tensor moment;       ///< (N) float32
  ConstTensor sums;    ///< (N) float64
  Tensor factors;      ///< (N) float32: 1 / sqrt(moment)
  std::int64_t count;  ///< of numbers in each sum
  double beta2, epsilon;
  bool by_mean;  ///< factors are 1 / sqrt(moment / mean of all moments) in place of that
};

/// A step against the direction u = row factor * column factor * gradient of each element, divided by max(1, its root
/// mean square / clip_threshold).
struct FactoredUpdate {
  Tensor parameters;           ///< (R, C) float32 or bf16
  ConstTensor gradients;       ///< (R, C) float32
  ConstTensor row_factors;     ///< (R) float32; empty: ones
  ConstTensor column_factors;  ///< (C) float32
  Tensor squares;              ///< float64 (1): the sum of u^2 over the whole tensor
  Tensor copy;                 ///< (R, C) bf16, or empty: receives new float32 parameters, rounded to the nearest
  double learning_rate, weight_decay, clip_threshold;
  std::int64_t num_elements;    ///< of the whole tensor
  double gradient_scale = 1.0;  ///< clipping factor
  /// How bf16 parameters are rounded: row r begins at element first_index + r * row_stride; num_columns and begin are
  /// not read.
  StochasticRounding rounding = {};
};

}  // namespace sft::ops
