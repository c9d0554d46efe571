// SPDX-License-Identifier: Apache-2.0
// Rows of weights with magnitudes of their own.
#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "emulation/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(magnitudes)

namespace {

using Shape = std::pair<std::int64_t, std::int64_t>;
const std::vector<Shape> shapes = with_large<Shape>({{0, 8}, {1, 1}, {5, 33}, {70, 64}, {257, 40}}, {{4099, 4096}});

std::string label(const char* op, DType dtype, const Shape& shape, const Layout& layout) {
  return std::string(op) + " " + text_of(dtype) + " " + std::to_string(shape.first) + " x " +
         std::to_string(shape.second) + ", gap " + std::to_string(layout.gap) + ", offset " +
         std::to_string(layout.offset);
}

template <class Work>
void for_each_case(const Work& work) {
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : layouts) {
      for (const Shape& shape : shapes) work(dtype, layout, shape);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(scale_columns) {
  for_each_case([](DType dtype, const Layout& layout, const Shape& shape) {
    const auto& [rows, columns] = shape;
    for (const DType out_dtype : compute_dtypes) {
      Twin in_place = Twin(dtype, {rows, columns}, layout).normal(1),
           x = Twin(dtype, {rows, columns}, layout).normal(2), y = Twin(out_dtype, {rows, columns}, layout).normal(3),
           plain(out_dtype, {rows, columns}, layout), factors = Twin(DType::float32, {columns}).normal(4),
           bias = Twin(dtype, {columns}).normal(5);
      check(label("scale_columns", dtype, shape, layout),
            {in(x), in(factors), in(bias), out(in_place), out(y), out(plain)}, [&](Backend& ops, auto of) {
              ops.run(ScaleColumns{.out = of(plain), .in = of(x), .factors = of(factors)});
              ops.run(ScaleColumns{.out = of(y),
                                   .in = of(x),
                                   .factors = of(factors),
                                   .shift = -1.0F,
                                   .bias = of(bias),
                                   .accumulate = true});
              ops.run(ScaleColumns{.out = of(in_place), .in = of(in_place), .factors = of(factors), .bias = of(bias)});
            });
    }
  });
}

BOOST_AUTO_TEST_CASE(products) {
  for_each_case([](DType dtype, const Layout& layout, const Shape& shape) {
    const auto& [rows, columns] = shape;
    Twin a = Twin(dtype, {rows, columns}, layout).normal(1), b = Twin(dtype, {rows, columns}, layout).normal(2),
         wide = Twin(DType::float32, {rows, columns}, layout).normal(3),
         factors = Twin(DType::float32, {columns}).normal(4), by_column = Twin(DType::float32, {columns}).normal(5),
         by_row = Twin(DType::float32, {rows}).normal(6);
    check(label("products", dtype, shape, layout), {in(a), in(b), in(wide), in(factors), out(by_column), out(by_row)},
          [&](Backend& ops, auto of) {
            ops.run(AddColumnProducts{.sums = of(by_column), .a = of(a), .b = of(b), .factors = of(factors)});
            ops.run(AddRowProducts{.sums = of(by_row), .a = of(wide), .b = of(b), .factor = -0.5F});
          });
  });
}

BOOST_AUTO_TEST_CASE(factors) {
  for (const DType dtype : compute_dtypes) {
    for (const std::int64_t size : {0, 1, 300}) {
      Twin magnitudes = Twin(dtype, {size}).normal(1), squares = Twin(DType::float32, {size}).filled(2.3),
           found(DType::float32, {size}), inverse(DType::float32, {size});
      check("magnitude_factors of " + std::to_string(size), {in(magnitudes), in(squares), out(found), out(inverse)},
            [&](Backend& ops, auto of) {
              ops.run(MagnitudeFactors{.factors = of(found),
                                       .inverse_norms = of(inverse),
                                       .magnitudes = of(magnitudes),
                                       .squares = of(squares)});
            });
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
