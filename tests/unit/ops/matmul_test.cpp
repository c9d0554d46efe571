// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/matmul.hpp"
#include "ops/product_blocks.hpp"
#include "unit/ops/matmul_case.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {
namespace {

std::vector<Case> cases_of(DType dtype) {
  std::vector<Case> cases;
  for (const auto& [m, n, k] : {std::tuple{1, 1, 1}, {17, 33, 5}, {64, 130, 300}, {1, 70, 64}, {70, 1, 64}}) {
    for (int flags = 0; flags < 16; ++flags) {
      for (const DType c_dtype : {dtype, DType::float32}) {
        cases.push_back({m, n, k, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0, c_dtype});
      }
    }
  }
  return cases;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(matmul)

BOOST_AUTO_TEST_CASE(every_transposition_bias_and_accumulation_of_strided_operands) {
  for (const int num_threads : {1, 3}) {
    omp_set_num_threads(num_threads);
    TestBackend backend(cpu::best_isa());
    for (const DType dtype : compute_dtypes) {
      for (const Case& test : cases_of(dtype)) {
        check_product(test, dtype, name_of(dtype), [&](const Matmul& product) { backend->run(product); });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_long_row_or_column_with_gaps) {  // too large for the float64 sums of small products
  TestBackend backend(cpu::best_isa());
  for (const DType dtype : compute_dtypes) {
    for (const auto& [m, n] : {std::pair{1, 1500}, {1500, 1}}) {
      for (const bool transpose : {false, true}) {
        check_product({m, n, 1500, transpose, transpose, true, true, dtype}, dtype, name_of(dtype),
                      [&](const Matmul& product) { backend->run(product); });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(small_float32_products_are_rounded_once) {
  constexpr std::int64_t m = 37, n = 29, k = 1500;  // float32 sums of so many terms are off by many times a rounding
  constexpr double half_unit = 0x1p-24;
  on_every_backend([](TestBackend& backend) {
    const Owned a = Owned(DType::float32, {m, k}).normal(1), b = Owned(DType::float32, {k, n}).normal(2);
    const Owned c(DType::float32, {m, n});
    backend->run(Matmul{*a, *b, *c});
    const std::vector<double> exact = naive::matmul(read(*a), read(*b), m, n, k, false, false);
    const std::vector<double> found = read(*c);
    double worst = 0.0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      worst = std::max(worst, std::abs(found[i] - exact[i]) / (std::abs(exact[i]) + 1e-6));
    }
    BOOST_TEST(worst <= 1.001 * half_unit, cpu::name_of(backend.isa()) << ": " << worst);
  });
}

BOOST_AUTO_TEST_CASE(bf16_products_by_way_of_float32_tiles) {
  omp_set_num_threads(2);
  const Owned workspace(DType::float32,
                        {static_cast<std::int64_t>(cpu::workspace_bytes(2, largest_shapes, {}) / sizeof(float))});
  cpu::MatmulEngine engine(cpu::best_isa());
  const auto product = [&](const Matmul& matmul) { engine.run_in_float32(matmul, *workspace); };
  for (const Case& test : cases_of(DType::bf16)) check_product(test, DType::bf16, "tiles", product);
  // Sums of one tile and of many, tiles of c in place and not, and a last one of a single column.
  for (const auto& [m, n, k] : {std::tuple{600, 257, 90}, {1100, 513, 550}}) {
    for (const DType c_dtype : {DType::bf16, DType::float32}) {
      check_product({m, n, k, true, false, true, true, c_dtype}, DType::bf16, "many tiles", product);
      check_product({m, n, k, false, true, false, true, c_dtype}, DType::bf16, "many tiles", product);
    }
  }
}

BOOST_AUTO_TEST_CASE(bf16_products_run_in_float32_where_that_is_faster) {
  // What float32 holds and bf16 products do not: their instructions take subnormal numbers for zero.
  constexpr double subnormal = 0x1p-130, large = 0x1p+100;
  constexpr std::int64_t size = 64;
  on_every_backend([&](TestBackend& backend) {
    const Owned a = Owned(DType::bf16, {size, size}).fill(subnormal), b = Owned(DType::bf16, {size, size}).fill(large);
    const Owned c(DType::float32, {size, size});
    backend->run(Matmul{*a, *b, *c});
    const double expected = cpu::has_fast_bf16_products(backend.isa()) ? 0.0 : size * subnormal * large;
    BOOST_TEST(get(*c, 1, 2) == expected, backend.name());
  });
}

BOOST_AUTO_TEST_CASE(products_in_halves_where_the_workspace_is_small) {
  omp_set_num_threads(2);
  const Owned workspace(DType::float32, {24 * 1024});
  cpu::MatmulEngine engine(cpu::best_isa());
  const auto product = [&](const Matmul& matmul) { engine.run(matmul, *workspace); };
  for (int flags = 0; flags < 16; ++flags) {
    for (const auto& [m, n] : {std::pair{300, 130}, {130, 300}}) {
      const Case test{
          m, n, 200, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0, DType::float32};
      check_product(test, DType::float32, "halves", product);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_empty_product_is_no_work) {
  TestBackend backend(cpu::best_isa());
  const Owned a(DType::float32, {1, 4}), b(DType::float32, {4, 3}), c(DType::float32, {1, 3});
  backend->run(Matmul{a->rows(0, 0), *b, c->rows(0, 0)});
  BOOST_TEST(std::isnan(get(*c, 0, 0)));
}

BOOST_AUTO_TEST_CASE(a_sum_without_terms_is_zero) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    const Owned a(dtype, {3, 1}), b(dtype, {1, 5}), c(dtype, {3, 5}), bias(dtype, {5});
    const Tensor no_columns = a->columns(0, 0), no_rows = b->rows(0, 0);
    backend->run(Matmul{.a = no_columns, .b = no_rows, .c = *c});
    BOOST_TEST(get(*c, 2, 4) == 0.0, label);
    backend->run(Fill{*bias, 2.0F});
    backend->run(Matmul{.a = no_columns, .b = no_rows, .c = *c, .accumulate = true, .bias = *bias});
    backend->run(Matmul{.a = no_columns, .b = no_rows, .c = *c, .accumulate = true, .bias = *bias});
    BOOST_TEST(get(*c, 2, 4) == 4.0, label);
  });
}

BOOST_AUTO_TEST_CASE(operands_that_do_not_fit_are_refused) {
  TestBackend backend(cpu::best_isa());
  const Owned a(DType::float32, {2, 4}), b(DType::float32, {5, 3}), c(DType::float32, {2, 3});
  BOOST_CHECK_THROW(backend->run(Matmul{*a, *b, *c}), std::logic_error);
}

BOOST_AUTO_TEST_CASE(bias_gradients_are_column_sums) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const auto& [rows, columns] : {std::pair{1, 1}, {7, 30}, {300, 130}}) {
      const Owned storage = Owned(dtype, {rows, columns + 13}).normal(1);
      const Owned dbias = Owned(DType::float32, {columns}).normal(2);
      std::vector<double> expected = read(*dbias);
      for (int t = 0; t < rows; ++t) {
        for (int c = 0; c < columns; ++c) expected[c] += get(*storage, t, c + 3);
      }
      backend->run(BiasBackward{*dbias, padded_view(storage, columns)});
      check_close(*dbias, expected, 1e-6, label);
    }
  });
}

BOOST_AUTO_TEST_CASE(products_in_blocks_of_what_a_library_can_index) {
  omp_set_num_threads(2);
  TestBackend backend(cpu::best_isa());
  const auto span = [](const ConstTensor& x) { return (x.shape[0] - 1) * x.stride0 + x.shape[1]; };
  int num_cut = 0;
  for (const DType dtype : compute_dtypes) {
    for (const Case& test : cases_of(dtype)) {
      for (const ProductLimits limits :
           {ProductLimits{.max_span = 1500, .max_rows = 40}, {.max_span = 20'000, .max_rows = 16}}) {
        const auto in_blocks = [&](const Matmul& product) {
          int num_blocks = 0;
          if (test.c_dtype == DType::bf16 && block_of(product, limits).k < test.k) {  // see sums_in_bf16_are_not_cut
            backend->run(product);
            return;
          }
          for_each_block(product, limits, [&](const Matmul& block) {
            ++num_blocks;
            for (const ConstTensor& x : {block.a, block.b, ConstTensor(block.c)})
              BOOST_TEST(span(x) <= limits.max_span);
            BOOST_TEST(std::max(block.c.shape[0], block.c.shape[1]) <= limits.max_rows);
            backend->run(block);
          });
          num_cut += num_blocks > 1;
        };
        check_product(test, dtype, "blocks", in_blocks);
      }
    }
  }
  BOOST_TEST(num_cut > 100);
}

BOOST_AUTO_TEST_CASE(sums_in_bf16_are_not_cut) {
  const Owned a(DType::bf16, {300, 8}), b(DType::bf16, {300, 8}), c(DType::bf16, {8, 8});
  const Matmul product{.a = *a, .b = *b, .c = *c, .transpose_a = true};
  BOOST_CHECK_THROW(for_each_block(product, {.max_span = 1500}, [](const Matmul&) {}), std::logic_error);
}

BOOST_AUTO_TEST_CASE(blocks_of_the_longest_rows) {
  // The addresses are never used.
  const auto matrix = [](std::int64_t rows, std::int64_t columns) {
    return Tensor(reinterpret_cast<void*>(std::uintptr_t{1} << 40), DType::bf16, {rows, columns});
  };
  const auto forward = [&](std::int64_t tokens, std::int64_t in, std::int64_t out) {
    const ProductBlock block =
        block_of({.a = matrix(tokens, in), .b = matrix(out, in), .c = matrix(tokens, out), .transpose_b = true}, {});
    BOOST_TEST(block.n == out);
    BOOST_TEST(block.k == in);
    return block.m;
  };
  const auto weights = [&](std::int64_t tokens, std::int64_t in, std::int64_t out) {
    const ProductBlock block =
        block_of({.a = matrix(tokens, out), .b = matrix(tokens, in), .c = matrix(out, in), .transpose_a = true}, {});
    BOOST_TEST(block.m == out);
    BOOST_TEST(block.n == in);
    return block.k;
  };
  // Llama-3.1-8B: qkv is 6144 wide, gate and up together 28672.
  BOOST_TEST(forward(349'525, 4096, 6144) == 349'525);  // 2^31 - 2048 elements
  BOOST_TEST(forward(349'526, 4096, 6144) == 174'848);  // the smallest multiple of 128 of which two are enough
  BOOST_TEST(weights(349'526, 4096, 6144) == 174'848);
  BOOST_TEST(forward(131'072, 4096, 28'672) == 65'536);
  BOOST_TEST(forward(2'097'121, 16, 32) == 1'048'576);  // rows of a grid
  BOOST_TEST(weights(2'097'121, 16, 32) == 2'097'121);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
