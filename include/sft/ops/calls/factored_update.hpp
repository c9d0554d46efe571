// SPDX-License-Identifier: Apache-2.0
#pragma once
// Steps of Adafactor (Shazeer & Stern 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost"): of the
// second moment of a matrix the means of its rows and those of its columns are kept, and that of an element is taken to
// be their product, divided by the mean of all rows. The four ops of a step; between them the caller adds up sums of
// the same matrix that were formed on other ranks.
//
// Legend: R rows and C columns of a part of a matrix, the rows of which follow each other; a part of a vector is a row.
// Sums are float64, so that they hardly depend on the order of parts.

#include <cstdint>

#include "sft/ops/describe.hpp"
#include "sft/ops/pass.hpp"
#include "sft/ops/stochastic_rounding.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// Adds the squares of (scale x), summed along both dims.
struct SumSquaresByDim {
  static constexpr const char* name = "sum_squares_by_dim";
  static constexpr Pass pass = Pass::sum_squares;
  static constexpr bool repeats = false;
  ConstTensor x;         ///< (R, C) float32
  double scale;          ///< clipping factor
  Tensor rows, columns;  ///< (R), (C) float64, "+="; empty: not asked for

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("x", x, "R C", Types::float32);
    op.add("rows", rows, "R", Types::float64, optional);
    op.add("columns", columns, "C", Types::float64, optional);
    op.scalar("scale", scale);
  }
};

/// moment = beta2 moment + (1 - beta2) (sums / count + epsilon), and the factors that follow from it.
struct MomentFactors {
  static constexpr const char* name = "update_factors";
  static constexpr Pass pass = Pass::update;
  static constexpr bool repeats = false;
  Tensor moment;       ///< (N) float32
  ConstTensor sums;    ///< (N) float64
  Tensor factors;      ///< (N) float32: 1 / sqrt(moment)
  std::int64_t count;  ///< of elements in each sum
  double beta2, epsilon;
  bool by_mean;  ///< factors are 1 / sqrt(moment / mean of all moments) in place of that

  template <class Visitor>
  void describe(Visitor& op) const {
    op.add("moment", moment, "N", Types::float32);
    op.in("sums", sums, "N", Types::float64);
    op.out("factors", factors, "N", Types::float32);
    op.scalar("count", count);
    op.scalar("beta2", beta2);
    op.scalar("epsilon", epsilon);
    op.scalar("by_mean", by_mean);
    op.require(count > 0, "count is no number of elements");
  }
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

  template <class Visitor>
  void describe_direction(Visitor& op) const {
    op.in("gradients", gradients, "R C", Types::float32);
    op.in("row_factors", row_factors, "R", Types::float32, optional);
    op.in("column_factors", column_factors, "C", Types::float32);
    op.scalar("gradient_scale", gradient_scale);
    op.scalar("num_elements", num_elements);
    op.require(num_elements > 0, "num_elements is no number of elements");
  }
};

/// squares += u^2 of these elements; parameters and copy are not touched.
struct AddDirectionSquares {
  static constexpr const char* name = "add_direction_squares";
  static constexpr Pass pass = Pass::sum_squares;
  static constexpr bool repeats = false;
  FactoredUpdate step;

  template <class Visitor>
  void describe(Visitor& op) const {
    step.describe_direction(op);
    op.add("squares", step.squares, "1", Types::float64);
  }
};

struct UpdateFactored {
  static constexpr const char* name = "update_factored";
  static constexpr Pass pass = Pass::update;
  static constexpr bool repeats = false;
  FactoredUpdate step;

  template <class Visitor>
  void describe(Visitor& op) const {
    step.describe_direction(op);
    op.in("squares", step.squares, "1", Types::float64);
    op.add("parameters", step.parameters, "R C", Types::any);
    op.out("copy", step.copy, "R C", Types::bf16, optional);
    op.scalar("learning_rate", step.learning_rate);
    op.scalar("weight_decay", step.weight_decay);
    op.scalar("clip_threshold", step.clip_threshold);
    op.require(step.copy.empty() || step.parameters.dtype == DType::float32,
               "copy is given with bf16 parameters, which have none");
  }
};

}  // namespace sft::ops
