// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "emulation/ops/support.hpp"
#include "ops/cuda/kernels/kernels.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(elementary)

namespace {

/// Shapes of matrices: none, one element, whole vectors, hardly any, and more than a block takes.
const std::vector<std::pair<std::int64_t, std::int64_t>> shapes = with_large<std::pair<std::int64_t, std::int64_t>>(
    {{0, 8}, {1, 1}, {3, 64}, {7, 13}, {2, 5000}, {70, 40}}, {{601, 1152}, {3, 200003}});

std::string label(const char* op, DType dtype, std::int64_t rows, std::int64_t columns, Layout layout) {
  return std::string(op) + " " + text_of(dtype) + " " + std::to_string(rows) + " x " + std::to_string(columns) +
         ", gap " + std::to_string(layout.gap) + ", offset " + std::to_string(layout.offset);
}

}  // namespace

BOOST_AUTO_TEST_CASE(fill) {
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : layouts) {
      for (const auto& [rows, columns] : shapes) {
        Twin x(dtype, {rows, columns}, layout);
        check(label("fill", dtype, rows, columns, layout), {out(x, {})}, [&](Backend& ops, auto of) {
          ops.run(Fill{of(x), 1.7F});
        });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(copy_between_dtypes) {
  for (const DType from : compute_dtypes) {
    for (const DType to : compute_dtypes) {
      for (const Layout layout : layouts) {
        for (const auto& [rows, columns] : shapes) {
          Twin source = Twin(from, {rows, columns}, layout).normal(1), destination(to, {rows, columns}),
               strided(to, {rows, columns}, layout);
          check(label("copy", from, rows, columns, layout), {in(source), out(destination, {}), out(strided, {})},
                [&](Backend& ops, auto of) {
                  ops.run(Copy{of(destination), of(source)});
                  ops.run(Copy{of(strided), of(source)});
                });
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(add_and_scale) {
  for (const Layout layout : layouts) {
    for (const auto& [rows, columns] : shapes) {
      for (const DType to : compute_dtypes) {
        for (const DType from : compute_dtypes) {
          Twin x = Twin(to, {rows, columns}, layout).normal(1), y = Twin(from, {rows, columns}, layout).normal(2);
          check(label("add to", to, rows, columns, layout), {out(x, {}), in(y)}, [&](Backend& ops, auto of) {
            ops.run(Add{of(x), of(y)});
          });
        }
      }
    }
  }
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : flat_layouts) {
      for (const auto& [rows, columns] : shapes) {
        Twin x = Twin(dtype, {rows, columns}, layout).normal(3);
        check(label("scale", dtype, rows, columns, layout), {out(x, {})}, [&](Backend& ops, auto of) {
          ops.run(Scale{of(x), 0.37F});
        });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(sum_squares) {
  for (const Layout layout : flat_layouts) {
    for (const std::int64_t size : with_large<std::int64_t>({0, 1, 5, 1000, 70001}, {10000019})) {
      Twin x = Twin(DType::float32, {size}, layout).normal(1), result = Twin(DType::float64, {1}).filled(3.0);
      check("sum_squares of " + std::to_string(size), {in(x), out(result, {.of_itself = 1e-6})},
            [&](Backend& ops, auto of) {
              ops.run(SumSquares{of(result), of(x)});
            });
    }
  }
}

// Gradients lie elsewhere when they leave a GPU early: the norm of the same numbers is the same.
BOOST_AUTO_TEST_CASE(sum_squares_has_the_same_bits_wherever_the_numbers_lie) {
  for (const std::int64_t size : {5, 1003, 70001}) {
    std::vector<double> sums;
    for (const std::int64_t offset : {0, 1, 2, 3, 4}) {
      Twin x = Twin(DType::float32, {size}, {.offset = offset}).normal(1),
           result = Twin(DType::float64, {1}).filled(0.0);
      auto bytes = run_on_gpu({in(x), out(result)}, [&](Backend& ops, auto of) {
        ops.run(SumSquares{of(result), of(x)});
      });
      sums.push_back(get(result.at(bytes[1], 0, 0), DType::float64));
    }
    BOOST_TEST(std::count(sums.begin(), sums.end(), sums[0]) == std::ssize(sums), size << " numbers");
  }
}

BOOST_AUTO_TEST_CASE(divide_by_norm) {
  for (const Layout layout : flat_layouts) {
    for (const std::int64_t size : with_large<std::int64_t>({0, 1, 5, 1000, 70001}, {10000019})) {
      for (const double sum : {3.0, 0.0}) {  // nothing is divided by epsilon
        Twin x = Twin(DType::float32, {size}, layout).normal(1), squares = Twin(DType::float64, {1}).filled(sum);
        check("divide_by_norm of " + std::to_string(size), {out(x), in(squares)}, [&](Backend& ops, auto of) {
          ops.run(DivideByNorm{of(x), of(squares), 1e-7F});
        });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(bias_backward) {
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : layouts) {
      for (const auto& [rows, columns] : shapes) {
        Twin dy = Twin(dtype, {rows, columns}, layout).normal(1), dbias = Twin(DType::float32, {columns}).normal(2);
        check(label("bias_backward", dtype, rows, columns, layout), {in(dy), out(dbias)}, [&](Backend& ops, auto of) {
          ops.run(BiasBackward{of(dbias), of(dy)});
        });
      }
      Twin dy = Twin(dtype, {700, 16}, layout).normal(1), dbias = Twin(DType::float32, {16}).normal(2);
      check(label("bias_backward", dtype, 700, 16, layout), {in(dy), out(dbias)}, [&](Backend& ops, auto of) {
        ops.run(BiasBackward{of(dbias), of(dy)});
      });
    }
  }
}

// Tables of one word of 16 bytes, of what fits a kernel's arguments, and more.
BOOST_AUTO_TEST_CASE(upload) {
  for (const std::int64_t num_words : {1, 7, 240, 241, 500}) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(4 * num_words));
    std::iota(values.begin(), values.end(), 1);
    Twin table(DType::int32, {4 * num_words});
    check("upload of " + std::to_string(num_words) + " words", {out(table, {})}, [&](Backend& ops, auto of) {
      const Tensor to = of(table);
      if (&ops == &Backends::get().cpu()) {
        std::memcpy(to.data, values.data(), to.size_bytes());
      } else {
        cuda::upload(to.data, values.data(), to.size_bytes(), static_cast<cudaStream_t>(ops.stream().native()));
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(misuse_is_found) {
  Backend& ops = Backends::get().gpu();
  Twin x(DType::float32, {4, 6}), strided(DType::float32, {4, 6}, {.gap = 2}), doubles(DType::float64, {24}),
      bf16(DType::bf16, {4, 6});
  BOOST_CHECK_THROW(ops.run(Copy{x.gpu(), doubles.gpu()}), std::logic_error);
  BOOST_CHECK_THROW(ops.run(Copy{x.gpu(), x.gpu().rows(0, 3)}), std::logic_error);
  BOOST_CHECK_THROW(ops.run(Add{x.gpu(), doubles.gpu()}), std::logic_error);
  BOOST_CHECK_THROW(ops.run(Scale{strided.gpu(), 2.0F}), std::logic_error);
  BOOST_CHECK_THROW(ops.run(SumSquares{doubles.gpu(), bf16.gpu()}), std::logic_error);
  BOOST_CHECK_THROW(ops.run(BiasBackward{bf16.gpu(), x.gpu()}), std::logic_error);
  BOOST_CHECK_THROW(ops.run(RmsNormApply{.y = x.gpu(), .x = x.gpu(), .rstd = x.gpu(), .weight = bf16.gpu()}),
                    std::logic_error);
  BOOST_CHECK_THROW(ops.set_workspace(x.gpu()), std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
