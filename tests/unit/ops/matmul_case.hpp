// SPDX-License-Identifier: Apache-2.0
#pragma once
// A matrix product of random operands beside naive loops.

#include "unit/ops/naive.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

/// A matrix inside a wider one.
inline Tensor padded_view(const Owned& storage, std::int64_t columns) { return storage->columns(3, columns); }

struct Case {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate, bias;
  DType c_dtype;
};

/// Runs `product` of random strided operands and compares it with the naive one.
template <class F>
void check_product(const Case& test, DType dtype, const std::string& label, F product) {
  const auto& [m, n, k, transpose_a, transpose_b, accumulate, bias, c_dtype] = test;
  const std::int64_t a_rows = transpose_a ? k : m, a_columns = transpose_a ? m : k;
  const std::int64_t b_rows = transpose_b ? n : k, b_columns = transpose_b ? k : n;
  const Owned a_storage = Owned(dtype, {a_rows, a_columns + 9}).normal(1);
  const Owned b_storage = Owned(dtype, {b_rows, b_columns + 5}).normal(2);
  const Owned c_storage = Owned(c_dtype, {m, n + 7}).normal(3);
  const Owned bias_values = Owned(dtype, {n}).normal(4);
  const Tensor a = padded_view(a_storage, a_columns), b = padded_view(b_storage, b_columns),
               c = padded_view(c_storage, n);
  std::vector<double> expected = naive::matmul(read(a), read(b), m, n, k, transpose_a, transpose_b);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      if (bias) expected[i * n + j] += get(*bias_values, j, 0);
      if (accumulate) expected[i * n + j] += get(c, i, j);
      if (!accumulate) set(c, i, j, std::numeric_limits<double>::quiet_NaN());
    }
  }
  const double untouched = get(*c_storage, m - 1, n + 3);
  Matmul matmul{a, b, c, transpose_a, transpose_b, accumulate};
  if (bias) matmul.bias = *bias_values;
  product(matmul);
  check_close(c, expected, 2 * tolerance_of(c_dtype), label);
  BOOST_TEST(get(*c_storage, m - 1, n + 3) == untouched);
}

}  // namespace sft::ops::testing
