// SPDX-License-Identifier: Apache-2.0
// Rows of weights with magnitudes of their own; see sft/ops/calls/magnitudes.hpp.

#include "ops/cpu/kernels/table.hpp"
#include "ops/cpu/kernels/types.hpp"

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

void scale_columns(View out, ConstView in, const float* factors, float shift, const float* bias, bool accumulate) {
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
        if (accumulate) {
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
void add_column_products(float* sums, ConstView a, ConstView b, const float* factors) {
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
void add_row_products(float* sums, ConstView a, ConstView b, float factor) {
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

void magnitude_factors(float* factors, float* inverse_norms, ConstView magnitudes, const float* squares) {
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

}  // namespace

void enter_magnitudes(Kernels& table) {
  table.scale_columns = scale_columns;
  table.add_column_products = add_column_products;
  table.add_row_products = add_row_products;
  table.magnitude_factors = magnitude_factors;
}

}  // namespace sft::ops::cpu::SFT_ISA
