// SPDX-License-Identifier: Apache-2.0
#include "ops/views/factored.hpp"

#include "ops/views/tensor.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops {

SquareSumsView view_of(const SumSquaresByDim& sums) {
  SFT_ENSURE(sums.x.ndim == 2, "ops: a part of a matrix is one");
  SFT_ENSURE(sums.rows.empty() || sums.rows.num_elements() == sums.x.shape[0], "ops: a row has a sum");
  SFT_ENSURE(sums.columns.empty() || sums.columns.num_elements() == sums.x.shape[1], "ops: a column has a sum");
  return {.x = floats_of(sums.x),
          .rows = doubles_of(sums.rows),
          .columns = doubles_of(sums.columns),
          .num_rows = sums.x.shape[0],
          .num_columns = sums.x.shape[1],
          .scale = static_cast<float>(sums.scale)};
}

MomentFactorsView view_of(const MomentFactors& step) {
  const std::int64_t size = step.moment.num_elements();
  SFT_ENSURE(step.sums.num_elements() == size && step.factors.num_elements() == size, "ops: a moment has a factor");
  return {.moment = floats_of(step.moment),
          .sums = doubles_of(step.sums),
          .factors = floats_of(step.factors),
          .size = size,
          .count = static_cast<double>(step.count),
          .epsilon = step.epsilon,
          .beta2 = static_cast<float>(step.beta2),
          .one_minus_beta2 = static_cast<float>(1.0 - step.beta2),
          .by_mean = step.by_mean};
}

FactoredView view_of(const FactoredUpdate& step) {
  const ConstTensor& gradients = step.gradients;
  SFT_ENSURE(gradients.ndim == 2, "ops: a part of a matrix is one");
  SFT_ENSURE(step.row_factors.empty() || step.row_factors.num_elements() == gradients.shape[0],
             "ops: a row has a factor");
  SFT_ENSURE(step.column_factors.num_elements() == gradients.shape[1], "ops: a column has a factor");
  SFT_ENSURE(step.copy.empty() || step.parameters.dtype == DType::float32, "bf16 parameters have no copy");
  return {.parameters = flat_view_of(step.parameters).data,
          .has_bf16_parameters = step.parameters.dtype == DType::bf16,
          .gradients = floats_of(gradients),
          .row_factors = floats_of(step.row_factors),
          .column_factors = floats_of(step.column_factors),
          .squares = doubles_of(step.squares),
          .copy = flat_view_of(step.copy).data,
          .num_rows = gradients.shape[0],
          .num_columns = gradients.shape[1],
          .num_elements = static_cast<double>(step.num_elements),
          .clip_threshold = step.clip_threshold,
          .decay = static_cast<float>(1.0 - step.learning_rate * step.weight_decay),
          .learning_rate = static_cast<float>(step.learning_rate),
          .gradient_scale = static_cast<float>(step.gradient_scale),
          .key = step.rounding.key | 1U,
          .first_index = step.rounding.first_index,
          .row_stride = step.rounding.row_stride};
}

}  // namespace sft::ops
