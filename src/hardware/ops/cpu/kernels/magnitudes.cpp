// SPDX-License-Identifier: Apache-2.0
// Rows of weights with magnitudes of their own; see sft/ops/calls/magnitudes.hpp.

#include "sft/ops/calls/magnitudes.hpp"
#include "ops/cpu/kernels/run.hpp"
#include "ops/cpu/kernels/weight.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

/// to[c] = old_of(c) + (from[c] - bias_of(c)) (factors[c] + shift), of one row.
template <class T, class U, class Old, class Bias>
void scale_row(T* to, const U* from, std::int64_t num_columns, const float* factors, float shift, const Old& old_of,
               const Bias& bias_of) {
#pragma omp simd
  for (std::int64_t c = 0; c < num_columns; ++c) {
    store(to[c], old_of(c) + (load(from[c]) - bias_of(c)) * (factors[c] + shift));
  }
}

}  // namespace

template <>
void run(const ScaleColumns& op, Scratch scratch) {
  const View out = view_of(op.out);
  const ConstView in = view_of(op.in);
  const float* const factors = floats_of(op.factors);
  const float* const bias = op.bias.empty() ? nullptr : float32_weight(op.bias, scratch);
  const float shift = op.shift;
  with_type(out, [&](auto out_type) {
    with_type(in, [&](auto in_type) {
      using T = typename decltype(out_type)::type;
      using U = typename decltype(in_type)::type;
#pragma omp parallel for if (out.rows * out.columns >= min_parallel_elements)
      for (std::int64_t r = 0; r < out.rows; ++r) {
        const U* from = row<U>(in, r);
        T* to = row<T>(out, r);
        const auto none = [](std::int64_t) { return 0.0f; };
        const auto old = [to](std::int64_t c) { return load(to[c]); };
        const auto its_bias = [bias](std::int64_t c) { return bias[c]; };
        if (op.accumulate) {
          bias != nullptr ? scale_row(to, from, out.columns, factors, shift, old, its_bias)
                          : scale_row(to, from, out.columns, factors, shift, old, none);
        } else {
          bias != nullptr ? scale_row(to, from, out.columns, factors, shift, none, its_bias)
                          : scale_row(to, from, out.columns, factors, shift, none, none);
        }
      }
    });
  });
}

/// Float sums over runs of rows, double sums over the runs; threads share the columns.
template <>
void run(const AddColumnProducts& op, Scratch) {
  const ConstView a = view_of(op.a), b = view_of(op.b);
  float* const sums = floats_of(op.sums);
  const float* const factors = floats_of(op.factors);
  constexpr std::int64_t width = 64, run = 256;
  with_type(a, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (a.rows * a.columns >= min_parallel_elements)
    for (std::int64_t begin = 0; begin < a.columns; begin += width) {
      const std::int64_t size = min(width, a.columns - begin);
      double totals[width] = {};
      for (std::int64_t first = 0; first < a.rows; first += run) {
        float partial[width] = {};
        const std::int64_t end = min(a.rows, first + run);
        for (std::int64_t r = first; r < end; ++r) {
          const T *x = row<T>(a, r) + begin, *y = row<T>(b, r) + begin;
#pragma omp simd
          for (std::int64_t c = 0; c < size; ++c) partial[c] += load(x[c]) * load(y[c]);
        }
        for (std::int64_t c = 0; c < size; ++c) totals[c] += static_cast<double>(partial[c]);
      }
      for (std::int64_t c = 0; c < size; ++c) sums[begin + c] += factors[begin + c] * static_cast<float>(totals[c]);
    }
  });
}

/// Float sums over runs of columns, double sums over the runs.
template <>
void run(const AddRowProducts& op, Scratch) {
  const ConstView a = view_of(op.a), b = view_of(op.b);
  float* const sums = floats_of(op.sums);
  const float factor = op.factor;
  constexpr std::int64_t run = 1024;
  with_type(a, [&](auto a_type) {
    with_type(b, [&](auto b_type) {
      using T = typename decltype(a_type)::type;
      using U = typename decltype(b_type)::type;
#pragma omp parallel for if (a.rows * a.columns >= min_parallel_elements)
      for (std::int64_t r = 0; r < a.rows; ++r) {
        const T* x = row<T>(a, r);
        const U* y = row<U>(b, r);
        double total = 0.0;
        for (std::int64_t begin = 0; begin < a.columns; begin += run) {
          const std::int64_t end = min(a.columns, begin + run);
          float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
          for (std::int64_t c = begin; c < end; ++c) sum += load(x[c]) * load(y[c]);
          total += static_cast<double>(sum);
        }
        sums[r] += factor * static_cast<float>(total);
      }
    });
  });
}

template <>
void run(const MagnitudeFactors& op, Scratch) {
  const ConstView magnitudes = flat_view_of(op.magnitudes);
  float *const factors = floats_of(op.factors), *const inverse_norms = floats_of(op.inverse_norms);
  const float* const squares = floats_of(op.squares);
  with_type(magnitudes, [&](auto type) {
    using T = typename decltype(type)::type;
    const T* magnitude = row<T>(magnitudes, 0);
    for (std::int64_t i = 0; i < magnitudes.columns; ++i) {
      const float norm = rounded<T>(__builtin_sqrtf(squares[i])), value = load(magnitude[i]);
      factors[i] = norm == 0.0f ? 0.0f : value / norm;
      inverse_norms[i] = norm == 0.0f ? 0.0f : 1.0f / norm;
    }
  });
}

}  // namespace sft::ops::cpu::SFT_ISA
