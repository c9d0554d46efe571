// SPDX-License-Identifier: Apache-2.0
#pragma once
// What products on packed copies read, and where their sums go.

#include "ops/cpu/kernels/types.hpp"
#include "ops/cpu/matmul_arguments.hpp"

namespace sft::ops::cpu::SFT_ISA {

/// Rows of a or columns of b: element p of a line, a term of sums, is data[line * line_stride + p * term_stride].
template <class T>
struct Lines {
  const T* data;
  std::int64_t line_stride, term_stride;
  std::int64_t count, depth;

  [[nodiscard]] const T* at(std::int64_t line) const { return data + line * line_stride; }
};

/// The typed pointers of a product, which it does not own.
template <class T, class C>
struct Product : MatmulArguments {
  explicit Product(const MatmulArguments& product) : MatmulArguments(product) {}

  [[nodiscard]] Lines<T> rows(std::int64_t row, std::int64_t term, std::int64_t count, std::int64_t depth) const {
    return {static_cast<const T*>(a) + row * a_row_stride + term * a_column_stride, a_row_stride, a_column_stride,
            count, depth};
  }
  [[nodiscard]] Lines<T> columns(std::int64_t column, std::int64_t term, std::int64_t count, std::int64_t depth) const {
    return {static_cast<const T*>(b) + column * b_column_stride + term * b_row_stride, b_column_stride, b_row_stride,
            count, depth};
  }
  [[nodiscard]] C* result(std::int64_t row, std::int64_t column) const {
    return static_cast<C*>(c) + row * c_stride + column;
  }
  /// Whether sums begin with other numbers than 0.
  [[nodiscard]] bool has_terms_before() const { return accumulate || bias != nullptr; }
  /// What sums of `columns` neighbours from (row, column) on begin with.
  void read_terms_before(float* to, std::int64_t row, std::int64_t column, std::int64_t columns) const {
    const C* before = result(row, column);
    for (std::int64_t j = 0; j < columns; ++j) {
      const float added = bias == nullptr ? 0.0f : bias_at(column + j);
      to[j] = accumulate ? load(before[j]) + added : added;
    }
  }

 private:
  [[nodiscard]] float bias_at(std::int64_t column) const {
    return has_bf16_bias ? load(static_cast<const Bf16*>(bias)[column]) : static_cast<const float*>(bias)[column];
  }
};

}  // namespace sft::ops::cpu::SFT_ISA
