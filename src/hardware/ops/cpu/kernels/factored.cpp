// SPDX-License-Identifier: Apache-2.0
// Steps of Adafactor: sums of squares by rows and columns, and what follows from them. Results do not depend on the
// number of threads.

#include "ops/views/factored.hpp"
#include "ops/cpu/kernels/run.hpp"
#include "ops/cpu/kernels/types.hpp"
#include "ops/random_bits.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

void sum_squares_by_row(const SquareSumsView& s) {
#pragma omp parallel for if (s.num_rows * s.num_columns >= min_parallel_elements)
  for (std::int64_t r = 0; r < s.num_rows; ++r) {
    const float* x = s.x + r * s.num_columns;
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < s.num_columns; ++c) sum += square_of(s, x[c]);
    s.rows[r] += sum;
  }
}

void sum_squares_by_column(const SquareSumsView& s) {
  constexpr std::int64_t panel = 256;  // columns that a thread takes down all rows
#pragma omp parallel for if (s.num_rows * s.num_columns >= min_parallel_elements)
  for (std::int64_t begin = 0; begin < s.num_columns; begin += panel) {
    const std::int64_t count = min(panel, s.num_columns - begin);
    double sums[panel] = {};
    for (std::int64_t r = 0; r < s.num_rows; ++r) {
      const float* x = s.x + r * s.num_columns + begin;
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c) sums[c] += square_of(s, x[c]);
    }
    for (std::int64_t c = 0; c < count; ++c) s.columns[begin + c] += sums[c];
  }
}

double direction_squares(const FactoredView& step) {
  constexpr std::int64_t num_chunks = 256;
  const std::int64_t chunk_rows = divide_up(step.num_rows, num_chunks);
  double partials[num_chunks];
#pragma omp parallel for if (step.num_rows * step.num_columns >= min_parallel_elements)
  for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    double sum = 0.0;
    const std::int64_t end = min(step.num_rows, (chunk + 1) * chunk_rows);
    for (std::int64_t r = chunk * chunk_rows; r < end; ++r) {
      const FactoredRow row = row_of(step, r);
#pragma omp simd reduction(+ : sum)
      for (std::int64_t c = 0; c < step.num_columns; ++c) {
        const float direction = direction_of(step, row, c);
        sum += static_cast<double>(direction * direction);
      }
    }
    partials[chunk] = sum;
  }
  double total = 0.0;
  for (const double partial : partials) total += partial;
  return total;
}

template <class Parameter, bool has_copy>
void update_as(const FactoredView& step) {
  const float rate = rate_of(step, [](double x) { return __builtin_sqrt(x); });
#pragma omp parallel for if (step.num_rows * step.num_columns >= min_parallel_elements)
  for (std::int64_t r = 0; r < step.num_rows; ++r) {
    const FactoredRow row = row_of(step, r);
    Parameter* parameters = static_cast<Parameter*>(step.parameters) + r * step.num_columns;
    Bf16* copy = has_copy ? static_cast<Bf16*>(step.copy) + r * step.num_columns : nullptr;
    const std::int64_t index = step.first_index + r * step.row_stride;
#pragma omp simd
    for (std::int64_t c = 0; c < step.num_columns; ++c) {
      const float parameter = stepped(step, load(parameters[c]), direction_of(step, row, c), rate);
      std::uint64_t bits = 0;
      if constexpr (sizeof(Parameter) == sizeof(Bf16)) bits = squares(step.key, static_cast<std::uint64_t>(index + c));
      store_at_random(parameters[c], parameter, bits >> 32);
      if constexpr (has_copy) store(copy[c], parameter);
    }
  }
}

}  // namespace

template <>
void run(const SumSquaresByDim& op, Scratch) {
  const SquareSumsView sums = view_of(op);
  if (sums.rows != nullptr) sum_squares_by_row(sums);
  if (sums.columns != nullptr) sum_squares_by_column(sums);
}

template <>
void run(const MomentFactors& op, Scratch) {
  const MomentFactorsView step = view_of(op);
  double sum = 0.0;
  for (std::int64_t i = 0; i < step.size; ++i) {
    step.moment[i] = new_moment_of(step, i);
    sum += static_cast<double>(step.moment[i]);
  }
  const float mean = step.by_mean ? static_cast<float>(sum / static_cast<double>(step.size)) : 1.0f;
#pragma omp simd
  for (std::int64_t i = 0; i < step.size; ++i) step.factors[i] = 1.0f / __builtin_sqrtf(step.moment[i] / mean);
}

template <>
void run(const AddDirectionSquares& op, Scratch) {
  const FactoredView step = view_of(op.step);
  *step.squares += direction_squares(step);
}

template <>
void run(const UpdateFactored& op, Scratch) {
  const FactoredView step = view_of(op.step);
  if (step.has_bf16_parameters) return update_as<Bf16, false>(step);
  if (step.copy != nullptr) return update_as<float, true>(step);
  update_as<float, false>(step);
}

}  // namespace sft::ops::cpu::SFT_ISA
