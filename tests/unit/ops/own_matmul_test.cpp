// SPDX-License-Identifier: Apache-2.0
// Our own products, on packed copies.

#include "ops/cpu/own_matmul.hpp"
#include "unit/ops/matmul_case.hpp"

namespace sft::ops::testing {

namespace {

/// Runs the product by our own kernels on as many threads as OpenMP has, with scratch for so many columns at a time.
void run_own(cpu::Isa isa, const Matmul& product, std::int64_t scratch_columns = 128) {
  const auto& [a, b, c, transpose_a, transpose_b, accumulate, bias] = product;
  const bool has_bf16_result = c.dtype == DType::bf16;
  const Owned scratch(DType::float32,
                      {omp_get_max_threads() * cpu::packed_matmul_floats(scratch_columns, has_bf16_result)});
  cpu::run_own_product(tested_kernels(isa),
                       {.a = a.data,
                        .b = b.data,
                        .a_row_stride = transpose_a ? 1 : a.stride0,
                        .a_column_stride = transpose_a ? a.stride0 : 1,
                        .b_row_stride = transpose_b ? 1 : b.stride0,
                        .b_column_stride = transpose_b ? b.stride0 : 1,
                        .bias = bias.data,
                        .c = c.data,
                        .c_stride = c.stride0,
                        .m = c.shape[0],
                        .n = c.shape[1],
                        .k = a.shape[transpose_a ? 0 : 1],
                        .accumulate = accumulate,
                        .has_bf16_operands = a.dtype == DType::bf16,
                        .has_bf16_bias = bias.dtype == DType::bf16,
                        .has_bf16_result = has_bf16_result},
                       {scratch->as<float>(), scratch->num_elements()});
}

/// c (m, n), each operand inside a wider matrix, with random numbers that depend on their place alone.
std::vector<double> packed_product(cpu::Isa isa, int num_threads, DType dtype, std::int64_t m, std::int64_t n,
                                   std::int64_t k) {
  const Owned a = Owned(dtype, {700, 1700}).normal(1), b = Owned(dtype, {1700, 1700}).normal(2), c(dtype, {m, n});
  omp_set_num_threads(num_threads);
  run_own(isa, {.a = a->rows(0, m).columns(0, k), .b = b->rows(0, k).columns(0, n), .c = *c});
  return read(*c);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(own_matmul)

BOOST_AUTO_TEST_CASE(every_transposition_bias_and_accumulation) {
  // Whole tiles and parts of them, operands that are read in place, several blocks of rows, columns and terms, and
  // vectors.
  const std::array<std::array<std::int64_t, 3>, 9> sizes{{{6, 70, 300},
                                                          {13, 600, 7},
                                                          {150, 16, 520},
                                                          {290, 200, 260},
                                                          {1200, 70, 40},
                                                          {270, 290, 1030},
                                                          {2, 2, 2},
                                                          {1, 700, 70},
                                                          {700, 1, 70}}};
  for (const int num_threads : {1, 3}) {
    omp_set_num_threads(num_threads);
    for (const cpu::Isa isa : testable_isas()) {
      for (const auto& [dtype, c_dtype] :
           {std::pair{DType::float32, DType::float32}, {DType::bf16, DType::float32}, {DType::bf16, DType::bf16}}) {
        for (const auto& [m, n, k] : sizes) {
          const bool is_large = k > 1000;
          const int step = is_large ? 5 : 1;  // naive loops over so many numbers take long
          const std::int64_t columns = is_large ? cpu::packed_block_columns : 128;
          for (int flags = 0; flags < 16; flags += step) {
            const Case test{m, n, k, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0, c_dtype};
            check_product(test, dtype, cpu::name_of(isa),
                          [&](const Matmul& product) { run_own(isa, product, columns); });
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(bits_of_packed_products_depend_on_their_terms_alone) {
  for (const cpu::Isa isa : testable_isas()) {
    for (const DType dtype : compute_dtypes) {
      const std::int64_t m = 650, n = 1690, k = 600;
      const std::vector<double> whole = packed_product(isa, 1, dtype, m, n, k);
      BOOST_TEST(packed_product(isa, 3, dtype, m, n, k) == whole, boost::test_tools::per_element());
      const std::vector<double> few_rows = packed_product(isa, 2, dtype, 5, n, k),
                                few_columns = packed_product(isa, 1, dtype, m, 9, k);
      for (std::int64_t i = 0; i < 5; ++i) {
        for (std::int64_t j = 0; j < n; ++j) BOOST_REQUIRE(few_rows[i * n + j] == whole[i * n + j]);
      }
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < 9; ++j) BOOST_REQUIRE(few_columns[i * 9 + j] == whole[i * n + j]);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_bias_of_float32_is_added_to_products_of_bf16_numbers) {
  const std::int64_t k = 70;
  for (const auto& [m, n] : {std::pair{40, 50}, {1, 50}, {40, 1}}) {
    const Owned a = Owned(DType::bf16, {m, k}).normal(1), b = Owned(DType::bf16, {k, n}).normal(2);
    const Owned bias = Owned(DType::float32, {n}).normal(3), c(DType::float32, {m, n});
    std::vector<double> expected = naive::matmul(read(*a), read(*b), m, n, k, false, false);
    for (std::int64_t i = 0; i < m * n; ++i) expected[i] += get(*bias, i % n, 0);
    for (const cpu::Isa isa : testable_isas()) {
      run_own(isa, {.a = *a, .b = *b, .c = *c, .bias = *bias});
      check_close(*c, expected, 2 * tolerance_of(DType::float32), cpu::name_of(isa));
    }
  }
}

// In tiles the two products of a pair are added in another order.
BOOST_AUTO_TEST_CASE(products_of_bf16_numbers_are_those_of_float32_rounded_once) {
  omp_set_num_threads(2);
  const std::int64_t m = 70, n = 90, k = 600;
  const Owned a = Owned(DType::bf16, {m, k}).normal(1), b = Owned(DType::bf16, {k, n}).normal(2);
  const Owned wide_a(DType::float32, {m, k}), wide_b(DType::float32, {k, n});
  const Owned c(DType::bf16, {m, n}), sums(DType::float32, {m, n}), wide(DType::float32, {m, n}),
      rounded(DType::bf16, {m, n});
  for (const cpu::Isa isa : testable_isas()) {
    TestBackend backend(isa);
    backend->run(Copy{*wide_a, *a});
    backend->run(Copy{*wide_b, *b});
    run_own(isa, {.a = *wide_a, .b = *wide_b, .c = *wide});
    run_own(isa, {.a = *a, .b = *b, .c = *sums});
    if (isa == cpu::Isa::amx) {
      check_close(*sums, read(*wide), tolerance_of(DType::float32), "tiles");
    } else {
      BOOST_TEST(read(*sums) == read(*wide), boost::test_tools::per_element());
    }
    run_own(isa, {.a = *a, .b = *b, .c = *c});
    backend->run(Copy{*rounded, *sums});
    BOOST_TEST(read(*c) == read(*rounded), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(threads_share_a_product_by_its_longer_side_or_both) {
  const auto grid = [](std::int64_t m, std::int64_t n, int num_threads) {
    const cpu::ThreadGrid found = cpu::thread_grid(m, n, num_threads);
    return std::pair{found.row_parts, found.column_parts};
  };
  BOOST_CHECK(grid(2048, 128, 4) == std::pair(std::int64_t{4}, std::int64_t{1}));
  BOOST_CHECK(grid(64, 32000, 4) == std::pair(std::int64_t{1}, std::int64_t{4}));
  BOOST_CHECK(grid(2048, 2048, 4) == std::pair(std::int64_t{2}, std::int64_t{2}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
