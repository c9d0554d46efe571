// SPDX-License-Identifier: Apache-2.0
// Which products the memory of their machine code is planned for.

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <memory>

#include "ops/cpu/product_counter.hpp"
#include "sft/device/factory.hpp"

namespace sft::ops::cpu {

namespace {

constexpr std::size_t kibibyte = 1024, library_bytes = 1400 * kibibyte;

std::byte nothing;  // whose address tensors have: nobody reads or writes them

struct Fixture {
  Fixture() { counter.set_workspace(Tensor(&nothing, DType::float32, {std::int64_t{1} << 20})); }

  static Tensor matrix(std::int64_t rows, std::int64_t columns, DType dtype = DType::bf16) {
    return {&nothing, dtype, {rows, columns}};
  }
  [[nodiscard]] std::size_t bytes(std::int64_t num_lengths = 1, int num_threads = 1) const {
    return counter.code_bytes(num_threads, num_lengths);
  }

  std::unique_ptr<device::Device> device = device::make_null_device();
  std::unique_ptr<device::Stream> stream = device->make_stream(device::Priority::compute);
  ProductCounter counter{Isa::avx512_bf16, *stream};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(product_counter)

BOOST_FIXTURE_TEST_CASE(each_kind_of_product_counts_once_for_every_length, Fixture) {
  BOOST_TEST(bytes() == 0U);
  const Matmul product{.a = matrix(64, 32), .b = matrix(32, 48), .c = matrix(64, 48)};
  for (int layer = 0; layer < 3; ++layer) counter.matmul(product);
  BOOST_TEST(bytes() == library_bytes + 68 * kibibyte);
  Matmul sum = product;  // as the gradients of a second micro-batch are
  sum.accumulate = true;
  counter.matmul(sum);
  BOOST_TEST(bytes(3) == library_bytes + 3 * 2 * 68 * kibibyte);
  BOOST_TEST(bytes(max_kept_products) == library_bytes + max_kept_products * 68 * kibibyte);  // no more are kept
}

BOOST_FIXTURE_TEST_CASE(small_and_empty_products_have_no_code, Fixture) {
  constexpr DType exact = DType::float32;
  counter.matmul({.a = matrix(64, 32, exact), .b = matrix(32, 48, exact), .c = matrix(64, 48, exact)});
  counter.matmul({.a = matrix(0, 32), .b = matrix(32, 48), .c = matrix(0, 48)});
  counter.matmul({.a = matrix(64, 0), .b = matrix(0, 48), .c = matrix(64, 48)});
  BOOST_TEST(bytes(10) == 0U);
  counter.matmul({.a = matrix(512, 128, exact), .b = matrix(128, 128, exact), .c = matrix(512, 128, exact)});
  BOOST_TEST(bytes() == library_bytes + 66 * kibibyte);
}

BOOST_FIXTURE_TEST_CASE(products_of_columns_of_a_matrix_share_code, Fixture) {
  counter.matmul({.a = matrix(64, 4), .b = matrix(4, 48), .c = matrix(64, 96).columns(48, 48), .accumulate = true});
  BOOST_TEST(bytes() == library_bytes + (2304 + 34) * kibibyte);
}

BOOST_FIXTURE_TEST_CASE(products_of_experts_have_as_many_kinds_as_pieces, Fixture) {
  const std::array<std::int32_t, 3> offsets{0, 48, 96};
  const Tensor weights(&nothing, DType::bf16, {2, 32, 48}), gradients(&nothing, DType::float32, {2, 48, 32});
  counter.grouped_matmul({.a = matrix(96, 32), .b = weights, .c = matrix(96, 48), .offsets = offsets});
  BOOST_TEST(bytes(5) == library_bytes + 3 * 68 * kibibyte);  // of 16, 32 and 64 rows, whatever the lengths
  counter.grouped_weight_gradient({.dweight = gradients, .x = matrix(96, 48), .y = matrix(96, 32), .offsets = offsets});
  BOOST_TEST(bytes() == library_bytes + 6 * 68 * kibibyte);
  BOOST_TEST(bytes(1, 4) == library_bytes + 4 * 6 * 68 * kibibyte);  // each thread has its own
}

BOOST_FIXTURE_TEST_CASE(an_expert_has_no_more_rows_than_there_are_tokens, Fixture) {
  const std::array<std::int32_t, 3> offsets{0, 48, 96};
  const Tensor choices(&nothing, DType::int32, {96});
  counter.gather_tokens(
      {.out = matrix(96, 32), .in = matrix(48, 32), .choices = choices, .weights = {}, .num_choices = 2});
  const Tensor weights(&nothing, DType::bf16, {2, 32, 48});
  counter.grouped_matmul({.a = matrix(96, 32), .b = weights, .c = matrix(96, 48), .offsets = offsets});
  BOOST_TEST(bytes() == library_bytes + 2 * 68 * kibibyte);  // of 16 and 32 rows
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::cpu
