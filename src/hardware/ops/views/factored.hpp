// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pointers and sizes of the ops of sft/ops/calls/factored_update.hpp, and the arithmetic of an element, for all
// processors; see views/tensor.hpp. The functions are constexpr so that GPU code may call them, static so that kernels
// of one instruction set keep their own.

#include <cstdint>

#include "sft/ops/calls/factored_update.hpp"

namespace sft::ops {

struct SquareSumsView {
  const float* x;          ///< (num_rows, num_columns)
  double *rows, *columns;  ///< null: not asked for
  std::int64_t num_rows, num_columns;
  float scale;
};

static constexpr double square_of(const SquareSumsView& sums, float x) {
  const float scaled = x * sums.scale;
  return static_cast<double>(scaled * scaled);
}

struct MomentFactorsView {
  float* moment;
  const double* sums;
  float* factors;
  std::int64_t size;
  double count, epsilon;
  float beta2, one_minus_beta2;
  bool by_mean;
};

static constexpr float new_moment_of(const MomentFactorsView& step, std::int64_t i) {
  return step.moment[i] * step.beta2 +
         static_cast<float>(step.sums[i] / step.count + step.epsilon) * step.one_minus_beta2;
}

struct FactoredView {
  void* parameters = nullptr;  ///< float32 or bf16
  bool has_bf16_parameters = false;
  const float* gradients = nullptr;
  const float *row_factors = nullptr, *column_factors = nullptr;  ///< no row_factors: ones
  double* squares = nullptr;
  void* copy = nullptr;  ///< bf16; may be null
  std::int64_t num_rows = 0, num_columns = 0;
  double num_elements = 1, clip_threshold = 1;
  float decay = 1;  ///< 1 - learning_rate * weight_decay
  float learning_rate = 0, gradient_scale = 1;
  // StochasticRounding; without bf16 parameters it is not read.
  std::uint64_t key = 1;  ///< odd
  std::int64_t first_index = 0, row_stride = 0;
};

/// A row of one.
struct FactoredRow {
  float factor;
  const float* gradients;
};

static constexpr FactoredRow row_of(const FactoredView& step, std::int64_t row) {
  return {step.row_factors == nullptr ? 1.0f : step.row_factors[row], step.gradients + row * step.num_columns};
}

/// u of the element at `column`.
static constexpr float direction_of(const FactoredView& step, const FactoredRow& row, std::int64_t column) {
  return row.factor * step.column_factors[column] * (row.gradients[column] * step.gradient_scale);
}

/// The learning rate of the step along u; `root` is the square root of the processor.
template <class Root>
static constexpr float rate_of(const FactoredView& step, Root root) {
  const double excess = root(*step.squares / step.num_elements) / step.clip_threshold;
  return excess > 1.0 ? static_cast<float>(static_cast<double>(step.learning_rate) / excess) : step.learning_rate;
}

static constexpr float stepped(const FactoredView& step, float parameter, float direction, float rate) {
  return parameter * step.decay - rate * direction;
}

// Each throws std::logic_error where shapes or dtypes break the contract.
[[nodiscard]] SquareSumsView view_of(const SumSquaresByDim& sums);
[[nodiscard]] MomentFactorsView view_of(const MomentFactors& step);
[[nodiscard]] FactoredView view_of(const FactoredUpdate& step);

}  // namespace sft::ops
