// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <string>

#include "emulation/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(products)

namespace {

struct Dims {
  std::int64_t m, n, k;
};

struct Options {
  bool transpose_a, transpose_b, accumulate;
  Layout layout;
};

void compare_product(Dims dims, DType dtype, DType c_dtype, DType bias_dtype, bool has_bias, Options options) {
  const auto [m, n, k] = dims;
  const auto& [transpose_a, transpose_b, accumulate, layout] = options;
  const std::string what =
      "matmul " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) + ", " + text_of(dtype) +
      " to " + text_of(c_dtype) + (has_bias ? ", bias " + text_of(bias_dtype) : "") + (transpose_a ? ", a^T" : "") +
      (transpose_b ? ", b^T" : "") + (accumulate ? ", accumulated" : "") + ", gap " + std::to_string(layout.gap);
  Twin a = Twin(dtype, {transpose_a ? k : m, transpose_a ? m : k}, layout).normal(1),
       b = Twin(dtype, {transpose_b ? n : k, transpose_b ? k : n}, layout).normal(2), c(c_dtype, {m, n}, layout),
       bias = Twin(bias_dtype, {n}, {.offset = layout.offset}).normal(3);
  if (accumulate) std::move(c).normal(4);
  check(what, {in(a), in(b), in(bias), out(c, tolerance_of_products(dtype, c_dtype, k))}, [&](Backend& ops, auto of) {
    ops.run(Matmul{.a = of(a),
                   .b = of(b),
                   .c = of(c),
                   .transpose_a = transpose_a,
                   .transpose_b = transpose_b,
                   .accumulate = accumulate,
                   .bias = has_bias ? of(bias) : Tensor()});
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_form_of_a_product) {
  const std::vector<std::pair<DType, DType>> dtypes = {
      {DType::float32, DType::float32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::float32}};
  const std::vector<Dims> sizes = {{1, 1, 1}, {16, 24, 8}, {1, 40, 9}, {33, 1, 8}};
  int form = 0;
  const auto next_form = [&](Layout layout) {
    ++form;
    return Options{(form & 1) != 0, (form & 2) != 0, (form & 4) != 0, layout};
  };
  for (const auto& [dtype, c_dtype] : dtypes) {
    for (int i = 0; i < 8; ++i) compare_product({5, 7, 3}, dtype, c_dtype, dtype, false, next_form(layouts.back()));
    for (const Layout layout : layouts) {
      for (const Dims dims : sizes) compare_product(dims, dtype, c_dtype, dtype, false, next_form(layout));
      compare_product({5, 16, 8}, dtype, c_dtype, dtype, true, next_form(layout));
      compare_product({3, 7, 4}, dtype, c_dtype, c_dtype, true, next_form(layout));
    }
    for (const Dims dims :
         with_large<Dims>({}, {{300, 520, 1000}, {512, 4864, 896}, {333, 1152, 896}, {96, 896, 4864}})) {
      compare_product(dims, dtype, c_dtype, dtype, true, next_form({}));
    }
  }
}

// The library's choice is kept for a shape, and has to fit other operands of that shape: with other addresses, of which
// some are aligned worse.
BOOST_AUTO_TEST_CASE(shapes_that_were_there_before) {
  constexpr Dims dims{5, 16, 8};
  for (const DType dtype : compute_dtypes) {
    for (int misaligned = -1; misaligned < 4; ++misaligned) {
      const auto layout = [&](int operand) { return Layout{.offset = operand == misaligned ? 1 : 0}; };
      Twin a = Twin(dtype, {dims.m, dims.k}, layout(0)).normal(1),
           b = Twin(dtype, {dims.k, dims.n}, layout(1)).normal(2), c(dtype, {dims.m, dims.n}, layout(2)),
           d(dtype, {dims.m, dims.n}, layout(2)), bias_of_c = Twin(dtype, {dims.n}, layout(3)).normal(3),
           bias_of_d = Twin(dtype, {dims.n}, layout(3)).normal(4);
      check("matmul twice " + text_of(dtype) + ", operand " + std::to_string(misaligned) + " not aligned",
            {in(a), in(b), in(bias_of_c), in(bias_of_d), out(c), out(d)}, [&](Backend& ops, auto of) {
              ops.run(Matmul{.a = of(a), .b = of(b), .c = of(c), .bias = of(bias_of_c)});
              ops.run(Matmul{.a = of(a), .b = of(b), .c = of(d), .bias = of(bias_of_d)});
            });
    }
  }
}

BOOST_AUTO_TEST_CASE(more_rows_than_the_library_counts) {
  constexpr std::int64_t rows = 65'535 * 32 + 130;
  compare_product({rows, 1, 1}, DType::bf16, DType::bf16, DType::bf16, false, {false, true, false, {}});
  compare_product({1, rows, 1}, DType::bf16, DType::float32, DType::float32, false, {false, false, true, {}});
}

BOOST_AUTO_TEST_CASE(empty_products) {
  for (const DType dtype : compute_dtypes) {
    for (const Dims dims : {Dims{0, 4, 3}, Dims{4, 0, 3}, Dims{4, 5, 0}}) {
      for (const bool accumulate : {false, true}) {
        for (const Layout layout : layouts) {
          compare_product(dims, dtype, dtype, dtype, false, {true, false, accumulate, layout});
          compare_product(dims, dtype, dtype, dtype, true, {false, true, accumulate, layout});
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(misuse_is_found) {
  Backend& ops = Backends::get().gpu();
  Twin a(DType::bf16, {4, 8}), b(DType::bf16, {8, 6}), floats(DType::float32, {8, 6}), c(DType::bf16, {4, 6}),
      float_c(DType::float32, {4, 6}), row(DType::bf16, {24});
  BOOST_CHECK_THROW(ops.run(Matmul{.a = a.gpu(), .b = b.gpu(), .c = a.gpu()}), std::logic_error);
  BOOST_CHECK_THROW(ops.run(Matmul{.a = a.gpu(), .b = floats.gpu(), .c = float_c.gpu()}), std::logic_error);
  BOOST_CHECK_THROW(ops.run(Matmul{.a = a.gpu(), .b = b.gpu(), .c = row.gpu()}), std::logic_error);
  BOOST_CHECK_THROW(ops.run(Matmul{.a = a.gpu(), .b = b.gpu(), .c = c.gpu(), .transpose_b = true}), std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
