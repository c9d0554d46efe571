// SPDX-License-Identifier: Apache-2.0
// Steps of Adafactor on a GPU against the CPU's.
#include <boost/test/unit_test.hpp>
#include <string>

#include "emulation/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(factored)

namespace {

struct Shape {
  std::int64_t rows, columns;

  [[nodiscard]] std::string text() const { return std::to_string(rows) + " x " + std::to_string(columns); }
};

const std::vector<Shape> shapes =
    with_large<Shape>({{0, 5}, {1, 1}, {1, 3003}, {3, 40}, {65, 31}, {70, 300}, {601, 8}}, {{4096, 4096}, {1, 100003}});

/// float64 sums of float32 squares in another order.
constexpr Tolerance of_sums{.of_itself = 1e-12};

void compare_step(Shape shape, DType dtype, bool has_copy, bool has_rows, double squares, Layout layout) {
  const std::int64_t rows = shape.rows, columns = shape.columns;
  Twin parameters = Twin(dtype, {rows, columns}, {.offset = layout.offset}).normal(1),
       gradients = Twin(DType::float32, {rows, columns}, {.offset = layout.offset}).normal(2),
       row_factors = Twin(DType::float32, {rows}, layout).normal(3, 0.1, 2.0),
       column_factors = Twin(DType::float32, {columns}, layout).normal(4, 0.1, 2.0),
       sum = Twin(DType::float64, {1}, layout).filled(squares),
       copy = Twin(DType::bf16, {has_copy ? rows : 0, columns}, {.offset = layout.offset});
  const auto step_of = [&](auto of) {
    return FactoredUpdate{.parameters = of(parameters),
                          .gradients = of(gradients),
                          .row_factors = has_rows ? of(row_factors) : Tensor(),
                          .column_factors = of(column_factors),
                          .squares = of(sum),
                          .copy = has_copy ? of(copy) : Tensor(),
                          .learning_rate = 0.1,
                          .weight_decay = 0.2,
                          .clip_threshold = 1.0,
                          .num_elements = 5000,
                          .gradient_scale = 0.7,
                          .rounding = {.key = 0xfedcba9876543211U, .first_index = 12345, .row_stride = 4000}};
  };
  const std::string what = shape.text() + ", " + text_of(dtype) + (has_copy ? ", copy" : "");
  check("update " + what, {out(parameters), in(gradients), in(row_factors), in(column_factors), in(sum), out(copy)},
        [&](Backend& ops, auto of) { ops.run(UpdateFactored{step_of(of)}); });
  check("squares " + what, {in(parameters), in(gradients), in(row_factors), in(column_factors), out(sum, of_sums)},
        [&](Backend& ops, auto of) { ops.run(AddDirectionSquares{step_of(of)}); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(sums_of_squares_by_rows_and_columns) {
  for (const Layout layout : flat_layouts) {
    for (const Shape shape : shapes) {
      Twin x = Twin(DType::float32, {shape.rows, shape.columns}, layout).normal(1),
           by_row = Twin(DType::float64, {shape.rows}, layout).normal(2, 0.1, 3.0),
           by_column = Twin(DType::float64, {shape.columns}, layout).normal(3, 0.1, 3.0);
      for (const bool has_rows : {true, false}) {
        check("sums of " + shape.text(), {in(x), out(by_row, of_sums), out(by_column, of_sums)},
              [&](Backend& ops, auto of) {
                ops.run(SumSquaresByDim{
                    .x = of(x), .scale = 0.7, .rows = has_rows ? of(by_row) : Tensor(), .columns = of(by_column)});
              });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(factors_of_moments) {
  for (const Layout layout : flat_layouts) {
    for (const std::int64_t size : with_large<std::int64_t>({0, 1, 7, 300, 2003}, {200003})) {
      for (const bool by_mean : {true, false}) {
        Twin moment = Twin(DType::float32, {size}, layout).normal(1, 0.1, 1.0),
             sums = Twin(DType::float64, {size}, layout).normal(2, 10.0, 100.0),
             factors = Twin(DType::float32, {size}, layout);
        check("factors of " + std::to_string(size), {out(moment), in(sums), out(factors)}, [&](Backend& ops, auto of) {
          ops.run(MomentFactors{.moment = of(moment),
                                .sums = of(sums),
                                .factors = of(factors),
                                .count = 50,
                                .beta2 = 0.6,
                                .epsilon = 1e-30,
                                .by_mean = by_mean});
        });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(steps_along_factored_directions) {
  for (const Layout layout : flat_layouts) {
    for (const Shape shape : shapes) {
      for (const bool has_rows : {true, false}) {
        for (const double squares : {100.0, 80000.0}) {
          compare_step(shape, DType::float32, false, has_rows, squares, layout);
          compare_step(shape, DType::float32, true, has_rows, squares, layout);
          compare_step(shape, DType::bf16, false, has_rows, squares, layout);
        }
      }
    }
  }
}

// Without gradients a step is one product a number, the same on both: all that could differ is how it is rounded.
BOOST_AUTO_TEST_CASE(rounding_at_random_has_the_bits_of_the_cpu) {
  Twin parameters = Twin(DType::bf16, {70, 300}).normal(1), gradients = Twin(DType::float32, {70, 300}).filled(0.0),
       column_factors = Twin(DType::float32, {300}).filled(1.0), sum = Twin(DType::float64, {1}).filled(1.0);
  check("rounding", {out(parameters, {}), in(gradients), in(column_factors), in(sum)}, [&](Backend& ops, auto of) {
    ops.run(UpdateFactored{{.parameters = of(parameters),
                            .gradients = of(gradients),
                            .row_factors = {},
                            .column_factors = of(column_factors),
                            .squares = of(sum),
                            .copy = {},
                            .learning_rate = 0.1,
                            .weight_decay = 0.2,
                            .clip_threshold = 1.0,
                            .num_elements = 21000,
                            .gradient_scale = 1.0,
                            .rounding = {.key = 0xfedcba9876543211U, .first_index = 12345, .row_stride = 4000}}});
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
