// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>

#include "emulation/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(rms_norm)

namespace {

struct Case {
  std::int64_t rows, columns;
};
/// Columns: one, odd, a part of a warp's vectors, more than a warp's, and more than a block keeps in registers, with
/// and without whole vectors.
const std::vector<Case> cases = {{0, 8}, {1, 1}, {5, 7}, {9, 64}, {3, 904}, {2, 2048}};
const std::vector<Case> long_rows = with_large<Case>({{2, 4355}, {1, 16640}}, {{700, 896}, {300, 4096}, {40, 12288}});

constexpr float epsilon = 1e-5F;

std::string label(const std::string& op, DType dtype, DType other, Case c, Layout layout) {
  return op + " " + text_of(dtype) + "/" + text_of(other) + " " + std::to_string(c.rows) + " x " +
         std::to_string(c.columns) + ", gap " + std::to_string(layout.gap);
}

/// Calls run(dtype, float32 or the same, case, layout).
template <class F>
void for_each_case(F run) {
  for (const DType dtype : compute_dtypes) {
    for (const DType other : {DType::float32, dtype}) {
      for (const Layout layout : layouts) {
        for (const Case c : cases) run(dtype, other, c, layout);
      }
      for (const Case c : long_rows) run(dtype, other, c, Layout{});
      if (dtype == DType::float32) break;
    }
  }
}

/// Reciprocals of roots of means. A build that adds the `columns` squares one by one rounds as often: by the root of
/// that many half units, as a walk at random does.
Operand out_rstd(Twin& rstd, std::int64_t columns) {
  constexpr double half_unit = 0x1p-24;
  return out(rstd, {.of_largest =
                        tolerance_of(DType::float32).of_largest + half_unit * std::sqrt(static_cast<double>(columns))});
}

}  // namespace

BOOST_AUTO_TEST_CASE(forward_and_apply) {
  for_each_case([](DType dtype, DType weight_dtype, Case c, Layout layout) {
    Twin x = Twin(dtype, {c.rows, c.columns}, layout).normal(1),
         weight = Twin(weight_dtype, {c.columns}).normal(2, 0.2, 1), y(dtype, {c.rows, c.columns}, layout),
         again(dtype, {c.rows, c.columns}), rstd(DType::float32, {c.rows});
    check(label("rms_norm", dtype, weight_dtype, c, layout),
          {in(x), in(weight), out(y), out(again), out_rstd(rstd, c.columns)}, [&](Backend& ops, auto of) {
            ops.run(RmsNormForward{of(y), of(rstd), of(x), of(weight), epsilon});
            ops.run(RmsNormApply{.y = of(again), .x = of(x), .rstd = of(rstd), .weight = of(weight)});
          });
  });
}

BOOST_AUTO_TEST_CASE(forward_after_a_sum) {
  for_each_case([](DType dtype, DType delta_dtype, Case c, Layout layout) {
    Twin x = Twin(dtype, {c.rows, c.columns}, layout).normal(1),
         delta = Twin(delta_dtype, {c.rows, c.columns}, layout).normal(3),
         weight = Twin(DType::float32, {c.columns}).normal(2, 0.2, 1), y(dtype, {c.rows, c.columns}),
         sum(dtype, {c.rows, c.columns}, layout), rstd(DType::float32, {c.rows});
    check(label("add_rms_norm", dtype, delta_dtype, c, layout),
          {in(x), in(delta), in(weight), out(sum, {}), out(y), out_rstd(rstd, c.columns)}, [&](Backend& ops, auto of) {
            ops.run(AddRmsNormForward{.sum = of(sum),
                                      .y = of(y),
                                      .rstd = of(rstd),
                                      .x = of(x),
                                      .delta = of(delta),
                                      .weight = of(weight),
                                      .epsilon = epsilon});
          });
    check(label("add_rms_norm in place", dtype, delta_dtype, c, layout),
          {out(x, {}), in(delta), in(weight), out(y), out_rstd(rstd, c.columns)}, [&](Backend& ops, auto of) {
            ops.run(AddRmsNormForward{.sum = of(x),
                                      .y = of(y),
                                      .rstd = of(rstd),
                                      .x = of(x),
                                      .delta = of(delta),
                                      .weight = of(weight),
                                      .epsilon = epsilon});
          });
    if (delta_dtype != dtype) return;
    check(label("add_rms_norm in the place of delta", dtype, delta_dtype, c, layout),
          {in(x), out(delta), in(weight), out(sum, {}), out_rstd(rstd, c.columns)}, [&](Backend& ops, auto of) {
            ops.run(AddRmsNormForward{.sum = of(sum),
                                      .y = of(delta),
                                      .rstd = of(rstd),
                                      .x = of(x),
                                      .delta = of(delta),
                                      .weight = of(weight),
                                      .epsilon = epsilon});
          });
  });
}

BOOST_AUTO_TEST_CASE(backward) {
  for_each_case([](DType dtype, DType dy_dtype, Case c, Layout layout) {
    const auto matrix = [&](DType type, unsigned seed, double mean = 0.0) {
      return Twin(type, {c.rows, c.columns}, layout).normal(seed, 1.0, mean);
    };
    Twin x = matrix(dtype, 1), dy = matrix(dy_dtype, 2), dresidual = matrix(dtype, 3),
         weight = Twin(dtype, {c.columns}).normal(4, 0.2, 1), rstd = Twin(DType::float32, {c.rows}).normal(5, 0.1, 1),
         dx(dtype, {c.rows, c.columns}, layout), dweight = Twin(DType::float32, {c.columns}).normal(6);
    const std::string what = label("rms_norm_backward", dtype, dy_dtype, c, layout);
    check(what, {in(x), in(dy), in(dresidual), in(weight), in(rstd), out(dx), out(dweight)},
          [&](Backend& ops, auto of) {
            ops.run(RmsNormBackward{.dx = of(dx),
                                    .dweight = of(dweight),
                                    .dy = of(dy),
                                    .x = of(x),
                                    .rstd = of(rstd),
                                    .weight = of(weight),
                                    .dresidual = of(dresidual)});
          });
    check(what + " in place, no dweight", {in(x), in(dy), out(dresidual), in(weight), in(rstd)},
          [&](Backend& ops, auto of) {
            ops.run(RmsNormBackward{.dx = of(dresidual),
                                    .dweight = {},
                                    .dy = of(dy),
                                    .x = of(x),
                                    .rstd = of(rstd),
                                    .weight = of(weight),
                                    .dresidual = of(dresidual)});
          });
    check(what + " without residual", {in(x), in(dy), in(weight), in(rstd), out(dx)}, [&](Backend& ops, auto of) {
      ops.run(RmsNormBackward{
          .dx = of(dx), .dweight = {}, .dy = of(dy), .x = of(x), .rstd = of(rstd), .weight = of(weight)});
    });
    check(what + " in the place of x", {out(x), in(dy), in(weight), in(rstd), out(dweight)},
          [&](Backend& ops, auto of) {
            ops.run(RmsNormBackward{
                .dx = of(x), .dweight = of(dweight), .dy = of(dy), .x = of(x), .rstd = of(rstd), .weight = of(weight)});
          });
  });
}

BOOST_AUTO_TEST_CASE(weights_with_an_offset) {
  for (const DType dtype : compute_dtypes) {
    for (const DType weight_dtype : {DType::float32, dtype}) {
      constexpr std::int64_t rows = 5, columns = 72;
      Twin x = Twin(dtype, {rows, columns}).normal(1), dy = Twin(dtype, {rows, columns}).normal(2),
           weight = Twin(weight_dtype, {columns}).normal(3, 0.2), y(dtype, {rows, columns}),
           rstd(DType::float32, {rows}), dx(dtype, {rows, columns});
      check(
          "rms_norm with an offset " + text_of(dtype), {in(x), in(dy), in(weight), out(y), out(dx)},
          [&](Backend& ops, auto of) {
            ops.run(RmsNormForward{of(y), of(rstd), of(x), {of(weight), 1.0F}, epsilon});
            ops.run(RmsNormBackward{
                .dx = of(dx), .dweight = {}, .dy = of(dy), .x = of(x), .rstd = of(rstd), .weight = {of(weight), 1.0F}});
          });
    }
  }
}

BOOST_AUTO_TEST_CASE(columns_of_several_ranks) {
  for_each_case([](DType dtype, DType weight_dtype, Case c, Layout layout) {
    const auto matrix = [&](unsigned seed) { return Twin(dtype, {c.rows, c.columns}, layout).normal(seed); };
    Twin x = matrix(1), dy = matrix(2), weight = Twin(weight_dtype, {c.columns}).normal(3, 0.2, 1),
         y(dtype, {c.rows, c.columns}, layout), squares(DType::float32, {c.rows}), rstd(DType::float32, {c.rows}),
         dots(DType::float32, {c.rows}), dx(dtype, {c.rows, c.columns}, layout),
         dweight = Twin(DType::float32, {c.columns}).normal(6);
    const std::int64_t all_columns = 3 * c.columns;
    const std::string what = label("split_norm", dtype, weight_dtype, c, layout);
    check(what, {in(x), in(weight), out_rstd(squares, c.columns), out_rstd(rstd, c.columns), out(y)},
          [&](Backend& ops, auto of) {
            ops.run(SplitNormSquares{of(squares), of(x)});
            ops.run(SplitNormForward{.y = of(y),
                                     .rstd = of(rstd),
                                     .x = of(x),
                                     .squares = of(squares),
                                     .weight = of(weight),
                                     .all_columns = all_columns,
                                     .epsilon = epsilon});
          });
    Twin given_rstd = Twin(DType::float32, {c.rows}).normal(5, 0.1, 1),
         given_dots = Twin(DType::float32, {c.rows}).normal(7, 10.0);
    check(what + " backward",
          {in(x), in(dy), in(weight), in(given_rstd), in(given_dots), out(dots), out(dweight), out(dx)},
          [&](Backend& ops, auto of) {
            ops.run(SplitNormDots{.dots = of(dots),
                                  .dweight = of(dweight),
                                  .dy = of(dy),
                                  .x = of(x),
                                  .rstd = of(given_rstd),
                                  .weight = of(weight)});
            ops.run(SplitNormBackward{.dx = of(dx),
                                      .dy = of(dy),
                                      .x = of(x),
                                      .rstd = of(given_rstd),
                                      .dots = of(given_dots),
                                      .weight = of(weight),
                                      .all_columns = all_columns});
          });
  });
}

BOOST_AUTO_TEST_CASE(gradients_of_weights_over_many_rows) {
  for (const DType dtype : compute_dtypes) {
    constexpr std::int64_t rows = 400, columns = 24;
    Twin x = Twin(dtype, {rows, columns}).normal(1), dy = Twin(dtype, {rows, columns}).normal(2),
         weight = Twin(DType::float32, {columns}).normal(4, 0.2, 1),
         rstd = Twin(DType::float32, {rows}).normal(5, 0.1, 1), dx(dtype, {rows, columns}),
         dweight = Twin(DType::float32, {columns}).normal(6);
    check(
        "rms_norm_backward of many rows, " + text_of(dtype),
        {in(x), in(dy), in(weight), in(rstd), out(dx), out(dweight)}, [&](Backend& ops, auto of) {
          ops.run(RmsNormBackward{
              .dx = of(dx), .dweight = of(dweight), .dy = of(dy), .x = of(x), .rstd = of(rstd), .weight = of(weight)});
        });
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
