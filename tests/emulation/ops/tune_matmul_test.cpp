// SPDX-License-Identifier: Apache-2.0
// What is measured of products is what runs, and only the fastest of what the library proposes.

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "emulation/ops/fastest_matmul.hpp"
#include "emulation/ops/support.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"
#include "sft/ops/matmul_algorithms.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(matmul_tuning)

namespace {

/// The products of a layer, over addresses that are nobody's.
std::vector<Matmul> some_products() {
  auto* const nowhere = reinterpret_cast<void*>(std::uintptr_t{1} << 40U);
  const auto matrix = [&](DType dtype, std::int64_t rows, std::int64_t columns) {
    return Tensor(nowhere, dtype, {rows, columns});
  };
  const auto bf16 = DType::bf16, float32 = DType::float32;
  return {{.a = matrix(bf16, 16, 8), .b = matrix(bf16, 24, 8), .c = matrix(bf16, 16, 24), .transpose_b = true},
          {.a = matrix(bf16, 16, 8),
           .b = matrix(bf16, 16, 24),
           .c = matrix(float32, 8, 24),
           .transpose_a = true,
           .accumulate = true},
          {.a = matrix(bf16, 16, 64).columns(8, 8),
           .b = matrix(bf16, 8, 24),
           .c = matrix(bf16, 16, 24),
           .bias = Tensor(nowhere, bf16, {24})}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(products_of_a_model_are_listed_once_each) {
  const auto device = device::make_device(device::Kind::cpu);
  const auto stream = device->make_stream();
  const auto list = make_product_list(*stream);
  const std::vector<Matmul> products = some_products();
  for (int layer = 0; layer < 3; ++layer) {
    for (const Matmul& product : products) list->run(product);
  }
  BOOST_TEST(listed_products(*list).size() == products.size());
}

BOOST_AUTO_TEST_CASE(what_is_faster_is_taken_and_what_is_known_is_not_measured) {
  const auto gpu = device::make_device(device::Kind::cuda);
  const ListedProducts products{.plain = some_products(), .in_fp8 = {}};
  MatmulTuning slow_first, fast_first;
  {
    const FastestMatmul fourth(3);
    slow_first = tune_matmul(*gpu, products, {});
  }
  BOOST_TEST(slow_first.num_measured == 3);
  BOOST_TEST(slow_first.algorithms.of_products.size() == 3U);
  BOOST_TEST(slow_first.algorithms.library == matmul_library(*gpu));
  BOOST_TEST(slow_first.seconds_first - slow_first.seconds_fastest > 8e-3);  // of three products, 3 ms each
  const MatmulTuning again = tune_matmul(*gpu, products, slow_first.algorithms);
  BOOST_TEST(again.num_measured == 0);
  BOOST_TEST(to_text(again.algorithms) == to_text(slow_first.algorithms));
  MatmulAlgorithms of_other = slow_first.algorithms;
  of_other.library = "another";
  const FastestMatmul first(0);
  fast_first = tune_matmul(*gpu, products, of_other);
  BOOST_TEST(fast_first.num_measured == 3);
  BOOST_TEST(fast_first.seconds_first == fast_first.seconds_fastest);
}

BOOST_AUTO_TEST_CASE(a_list_survives_its_text) {
  const MatmulAlgorithms list{"cuBLASLt 1 on a GPU", {{"1x2x3", "plain 0 1"}, {"4x5x6", "bias 2 3"}}};
  const std::string text = to_text(list);
  const MatmulAlgorithms read = read_matmul_algorithms(text);
  BOOST_TEST(read.library == list.library);
  BOOST_CHECK(read.of_products == list.of_products);
  BOOST_TEST(read_matmul_algorithms(text.substr(0, text.size() - 1)).of_products.size() == 1U);
  BOOST_TEST(read_matmul_algorithms("").of_products.empty());
}

BOOST_AUTO_TEST_CASE(a_list_gives_the_same_numbers_and_what_is_none_is_passed_over) {
  const auto gpu = device::make_device(device::Kind::cuda);
  const auto stream = gpu->make_stream();
  const std::size_t bytes = workspace_bytes(device::Kind::cuda, 1, Shapes{.tokens = 16, .hidden = 8, .vocab = 1});
  const device::Device::Block workspace = gpu->allocate(bytes), memory = gpu->allocate(1 << 16),
                              staging = gpu->allocate(1 << 16, device::Space::pinned);
  auto* const begin = static_cast<std::byte*>(memory.get());
  const Tensor a(begin, DType::float32, {16, 8}), b(begin + 4096, DType::float32, {8, 24}),
      c(begin + 8192, DType::float32, {16, 24});
  const Matmul product{.a = a, .b = b, .c = c};
  MatmulAlgorithms tuned;
  {
    const FastestMatmul third(2);
    tuned = tune_matmul(*gpu, {.plain = {product}, .in_fp8 = {}}, {}).algorithms;
  }
  MatmulAlgorithms damaged = tuned, foreign = tuned;
  damaged.of_products.begin()->second = "plain nonsense";
  foreign.of_products.begin()->second = "plain 1 2 3 4 5 6 7 8";
  std::vector<std::vector<float>> results;
  for (const MatmulAlgorithms* list : {static_cast<const MatmulAlgorithms*>(nullptr), &std::as_const(tuned),
                                       &std::as_const(damaged), &std::as_const(foreign)}) {
    const auto backend = make_backend(*gpu, *stream, AttentionKernels::own, list);
    backend->set_workspace(Tensor(workspace.get(), DType::bf16, {static_cast<std::int64_t>(bytes / 2)}));
    backend->run(FillNormal{a, 1, 0, 1.0F});
    backend->run(FillNormal{b, 2, 0, 1.0F});
    backend->run(product);
    gpu->copy(staging.get(), c.data, c.size_bytes(), *stream);
    stream->synchronize();
    const auto* const values = static_cast<const float*>(staging.get());
    results.emplace_back(values, values + c.num_elements());
  }
  for (const auto& result : results) BOOST_TEST(result == results.front(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
