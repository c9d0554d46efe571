// SPDX-License-Identifier: Apache-2.0
#include "ops/checked/magnitude_rules.hpp"

#include "ops/checked/call.hpp"

namespace sft::ops::checked {

void check_scale_columns(const ScaleColumns& columns) {
  Call call("scale_columns");
  call.require_dims("out", columns.out, 2);
  const std::vector<std::int64_t> shape = shape_of(columns.out), row = {shape[1]};
  call.out("out", columns.out, shape, any_compute, Layout::strided);
  call.in("in", columns.in, shape, any_compute, Layout::strided);
  call.in("factors", columns.factors, row, DType::float32);
  if (!columns.bias.empty()) call.in("bias", columns.bias, row, any_compute);
  call.may_be("out", "in");
  call.check_memory();
}

void check_column_products(const ColumnProducts& products) {
  Call call("add_column_products");
  call.require_dims("a", products.a, 2);
  const std::vector<std::int64_t> shape = shape_of(products.a), row = {shape[1]};
  call.in("a", products.a, shape, any_compute, Layout::strided);
  call.in("b", products.b, shape, products.a.dtype, Layout::strided);
  call.in("factors", products.factors, row, DType::float32);
  call.out("sums", products.sums, row, DType::float32);
  call.check_memory();
}

void check_row_products(const RowProducts& products) {
  Call call("add_row_products");
  call.require_dims("a", products.a, 2);
  const std::vector<std::int64_t> shape = shape_of(products.a);
  call.in("a", products.a, shape, any_compute, Layout::strided);
  call.in("b", products.b, shape, any_compute, Layout::strided);
  call.out("sums", products.sums, {shape[0]}, DType::float32);
  call.check_memory();
}

void check_magnitude_factors(const MagnitudeFactors& factors) {
  Call call("magnitude_factors");
  call.require_dims("squares", factors.squares, 1);
  const std::vector<std::int64_t> shape = shape_of(factors.squares);
  call.in("squares", factors.squares, shape, DType::float32);
  call.in("magnitudes", factors.magnitudes, shape, any_compute);
  call.out("factors", factors.factors, shape, DType::float32);
  call.out("inverse_norms", factors.inverse_norms, shape, DType::float32);
  call.check_memory();
}

}  // namespace sft::ops::checked
