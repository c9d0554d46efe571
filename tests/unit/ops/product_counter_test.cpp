// SPDX-License-Identifier: Apache-2.0
// Which products the memory of their machine code is planned for.

#include <omp.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <memory>
#include <utility>

#include "ops/cpu/product_counter.hpp"
#include "ops/cpu/row_pieces.hpp"
#include "sft/device/factory.hpp"

namespace sft::ops::cpu {

namespace {

constexpr std::size_t kibibyte = 1024, library_bytes = 1400 * kibibyte;
constexpr DType exact = DType::float32;

std::byte nothing;  // whose address tensors have: nobody reads or writes them

struct Fixture {
  Fixture() { counter.set_workspace(Tensor(&nothing, DType::float32, {std::int64_t{1} << 20})); }

  static Tensor matrix(std::int64_t rows, std::int64_t columns, DType dtype = DType::bf16) {
    return {&nothing, dtype, {rows, columns}};
  }
  [[nodiscard]] std::size_t bytes(std::int64_t num_lengths = 1) const {
    return counter.code_bytes({.num_lengths = num_lengths});
  }

  std::unique_ptr<device::Device> device = device::make_null_device();
  std::unique_ptr<device::Stream> stream = device->make_stream(device::Priority::compute);
  ProductCounter counter{Isa::avx512_bf16, *stream};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(product_counter)

BOOST_FIXTURE_TEST_CASE(each_kind_of_product_counts_once_for_every_length, Fixture) {
  BOOST_TEST(bytes() == 0U);
  const Matmul product{.a = matrix(512, 128, exact), .b = matrix(128, 128, exact), .c = matrix(512, 128, exact)};
  for (int layer = 0; layer < 3; ++layer) counter.run(product);
  BOOST_TEST(bytes() == library_bytes + 66 * kibibyte);
  Matmul sum = product;  // as the gradients of a second micro-batch are
  sum.accumulate = true;
  counter.run(sum);
  BOOST_TEST(bytes(3) == library_bytes + 3 * 2 * 66 * kibibyte);
  BOOST_TEST(bytes(max_kept_products) == library_bytes + max_kept_products * 66 * kibibyte);  // no more are kept
}

BOOST_FIXTURE_TEST_CASE(small_and_empty_products_have_no_code, Fixture) {
  counter.run(Matmul{.a = matrix(64, 32, exact), .b = matrix(32, 48, exact), .c = matrix(64, 48, exact)});
  counter.run(Matmul{.a = matrix(0, 32), .b = matrix(32, 48), .c = matrix(0, 48)});
  counter.run(Matmul{.a = matrix(64, 0), .b = matrix(0, 48), .c = matrix(64, 48)});
  BOOST_TEST(bytes(10) == 0U);
  counter.run(Matmul{.a = matrix(512, 128, exact), .b = matrix(128, 128, exact), .c = matrix(512, 128, exact)});
  BOOST_TEST(bytes() == library_bytes + 66 * kibibyte);
}

BOOST_FIXTURE_TEST_CASE(products_of_columns_of_a_matrix_share_code, Fixture) {
  counter.run(Matmul{.a = matrix(512, 128, exact),
                     .b = matrix(128, 128, exact),
                     .c = matrix(512, 256, exact).columns(128, 128),
                     .accumulate = true});
  BOOST_TEST(bytes() == library_bytes + (6300 + 34) * kibibyte);
}

BOOST_FIXTURE_TEST_CASE(processors_without_bf16_products_share_more_code, Fixture) {
  const auto bytes_with = [this](Isa isa, std::int64_t columns) {
    ProductCounter other(isa, *stream);
    other.set_workspace(Tensor(&nothing, DType::float32, {std::int64_t{1} << 20}));
    other.run(Matmul{.a = matrix(64, 32), .b = matrix(32, columns), .c = matrix(64, columns)});
    return other.code_bytes({});
  };
  BOOST_TEST(bytes_with(Isa::avx512, 4) == library_bytes + (2400 + 34) * kibibyte);
  BOOST_TEST(bytes_with(Isa::baseline, 48) == library_bytes + (1792 + 34) * kibibyte);
  for (const std::int64_t columns : {1, 48}) {  // they are ours
    BOOST_TEST(bytes_with(Isa::avx2, columns) == 0U);
    BOOST_TEST(bytes_with(Isa::amx, columns) == 0U);
  }
  BOOST_TEST(bytes_with(Isa::avx512, 48) == 0U);
  if (has_fast_bf16_products(Isa::avx512_bf16)) {
    BOOST_TEST(bytes_with(Isa::avx512_bf16, 48) == library_bytes + 68 * kibibyte);
  }
}

// What is counted of the most tokens then holds for micro-batches that have few.
BOOST_FIXTURE_TEST_CASE(how_many_tokens_there_are_does_not_choose_whose_products_they_have, Fixture) {
  const auto bytes_of = [this](const Matmul& product) {
    ProductCounter other(Isa::avx512, *stream);
    other.set_workspace(Tensor(&nothing, DType::float32, {std::int64_t{1} << 20}));
    other.run(product);
    return other.code_bytes({});
  };
  for (const std::int64_t tokens : {1, 2, 4, 5, 64}) {
    BOOST_TEST(bytes_of({.a = matrix(tokens, 32), .b = matrix(32, 48), .c = matrix(tokens, 48)}) == 0U);
  }
  // The gradient of an adapter's matrix of 4 rows.
  const Matmul gradient{.a = matrix(64, 4), .b = matrix(64, 48), .c = matrix(4, 48), .transpose_a = true};
  BOOST_TEST(bytes_of(gradient) == library_bytes + (2400 + 34) * kibibyte);
}

BOOST_FIXTURE_TEST_CASE(products_of_8_bit_floats_have_as_many_kinds_as_tiles, Fixture) {
  omp_set_num_threads(1);
  const auto codes = [](std::int64_t lines, std::int64_t terms) {
    Fp8Matrix matrix;
    matrix.codes = Tensor(&nothing, DType::uint8, {lines, terms});
    return matrix;
  };
  const Fp8Matmul product{.a = codes(600, 600), .b = codes(520, 600), .c = matrix(600, 520)};
  // 512 and 88 rows, 512 and 8 columns; first terms, more of them, and the last 88: where they are not our own.
  const std::size_t expected =
      has_fast_bf16_products(Isa::avx512_bf16) ? library_bytes + std::size_t{2 * 2 * 3} * 68 * kibibyte : 0;
  for (int layer = 0; layer < 2; ++layer) {
    counter.run(product);
    BOOST_TEST(bytes() == expected);
  }
  ProductCounter with_tiles(Isa::amx, *stream);
  with_tiles.run(product);
  BOOST_TEST(with_tiles.code_bytes({}) == 0U);
}

BOOST_FIXTURE_TEST_CASE(products_of_experts_have_as_many_kinds_as_pieces, Fixture) {
  constexpr std::size_t product_bytes = 66 * kibibyte;
  const std::array<std::int32_t, 3> offsets{0, 48, 96};  // those of the run are not known
  const Tensor weights(&nothing, exact, {2, 512, 512}), gradients(&nothing, exact, {2, 512, 512});
  const Tensor rows = matrix(96, 512, exact);
  counter.run(GroupedMatmul{.a = rows, .b = weights, .c = rows, .offsets = offsets});
  const auto experts_bytes = [this](std::int64_t rows, int num_threads = 1) {
    return counter.code_bytes({.num_threads = num_threads, .num_lengths = 5, .most_expert_rows = rows}) - library_bytes;
  };
  BOOST_TEST(experts_bytes(48) == 3 * product_bytes);  // of 16, 32 and 48 rows, whatever the lengths
  BOOST_TEST(experts_bytes(1024) == (16 + 2 * 8) * product_bytes);
  BOOST_TEST(experts_bytes(48, 4) == 5 * 3 * product_bytes);  // all threads together and each alone
  counter.run(GroupedWeightGradient{.dweight = gradients, .x = rows, .y = rows, .offsets = offsets});
  BOOST_TEST(experts_bytes(48) == 6 * product_bytes);
}

BOOST_AUTO_TEST_CASE(pieces_of_rows_have_few_sizes) {
  BOOST_TEST(piece_rows(7) == 7);
  BOOST_TEST(piece_rows(240) == 240);
  BOOST_TEST(piece_rows(272) == 256);
  BOOST_TEST(piece_rows(304) == 288);
  BOOST_TEST(piece_rows(1040) == 1024);
  for (const auto& [rows, next] : {std::pair{16, 32}, {240, 256}, {256, 288}, {480, 512}, {512, 576}}) {
    BOOST_TEST(next_piece_rows(rows) == next);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::cpu
