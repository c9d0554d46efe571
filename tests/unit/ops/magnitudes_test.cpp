// SPDX-License-Identifier: Apache-2.0
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(magnitudes)

BOOST_AUTO_TEST_CASE(columns_are_scaled) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const auto& [rows, columns] : {std::pair{1, 3}, {7, 67}, {60, 352}}) {
      const Owned in = Owned(dtype, {rows, columns}).normal(1), factors = Owned(DType::float32, {columns}).normal(2),
                  bias = Owned(dtype, {columns}).normal(3);
      for (const DType out_dtype : compute_dtypes) {
        const Owned old = Owned(out_dtype, {rows, columns}).normal(4), out(out_dtype, {rows, columns});
        std::vector<double> plain, shifted, in_place;
        for (int r = 0; r < rows; ++r) {
          for (int c = 0; c < columns; ++c) {
            const double x = get(*in, r, c), f = get(*factors, c, 0), b = get(*bias, c, 0);
            plain.push_back(x * f);
            shifted.push_back(get(*old, r, c) + (x - b) * (f - 1));
            in_place.push_back(x + (x - b) * (f - 1));
          }
        }
        backend->run(ScaleColumns{.out = *out, .in = *in, .factors = *factors});
        check_close(*out, plain, tolerance_of(out_dtype), label);
        backend->run(ScaleColumns{
            .out = *old, .in = *in, .factors = *factors, .shift = -1.0F, .bias = *bias, .accumulate = true});
        check_close(*old, shifted, tolerance_of(out_dtype), label);
        if (out_dtype != dtype) continue;
        backend->run(ScaleColumns{
            .out = *in, .in = *in, .factors = *factors, .shift = -1.0F, .bias = *bias, .accumulate = true});
        check_close(*in, in_place, tolerance_of(dtype), label);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(products_are_added_up_along_rows_and_columns) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const auto& [rows, columns] : {std::pair{1, 3}, {300, 67}, {60, 2352}}) {
      const Owned a = Owned(dtype, {rows, columns}).normal(1), b = Owned(dtype, {rows, columns}).normal(2),
                  wide = Owned(DType::float32, {rows, columns}).normal(3),
                  factors = Owned(DType::float32, {columns}).normal(4),
                  by_column = Owned(DType::float32, {columns}).fill(2.0),
                  by_row = Owned(DType::float32, {rows}).fill(3.0);
      std::vector<double> column_sums(columns, 2.0), row_sums(rows, 3.0);
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < columns; ++c) {
          column_sums[c] += get(*factors, c, 0) * get(*a, r, c) * get(*b, r, c);
          row_sums[r] += -0.5 * get(*wide, r, c) * get(*b, r, c);
        }
      }
      backend->run(AddColumnProducts{.sums = *by_column, .a = *a, .b = *b, .factors = *factors});
      check_close(*by_column, column_sums, 3e-6, label);
      backend->run(AddRowProducts{.sums = *by_row, .a = *wide, .b = *b, .factor = -0.5F});
      check_close(*by_row, row_sums, 3e-6, label);
    }
  });
}

BOOST_AUTO_TEST_CASE(factors_follow_from_norms) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    const int size = 70;
    const Owned magnitudes = Owned(dtype, {size}).normal(1), squares = Owned(DType::float32, {size}).uniform(2, 1, 9),
                factors(DType::float32, {size}), inverse(DType::float32, {size});
    set(*squares, 3, 0, 0.0);
    std::vector<double> expected_factors, expected_inverse;
    for (int i = 0; i < size; ++i) {
      const auto root = static_cast<float>(std::sqrt(get(*squares, i, 0)));
      const double norm = dtype == DType::bf16 ? float_of(bf16_of(root)) : root;
      expected_factors.push_back(norm == 0 ? 0 : get(*magnitudes, i, 0) / norm);
      expected_inverse.push_back(norm == 0 ? 0 : 1 / norm);
    }
    backend->run(MagnitudeFactors{
        .factors = *factors, .inverse_norms = *inverse, .magnitudes = *magnitudes, .squares = *squares});
    check_close(*factors, expected_factors, 1e-6, label);
    check_close(*inverse, expected_inverse, 1e-6, label);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
