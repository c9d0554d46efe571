// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit floats are measured as plain ones are, and what is measured is what runs.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "emulation/ops/fastest_matmul.hpp"
#include "ops/cuda/fp8_matmul.hpp"
#include "ops/cuda/planning.hpp"
#include "ops/cuda/tuning_operands.hpp"
#include "ops/product_key.hpp"
#include "ops/views/tensor.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"

namespace sft::ops::testing {

namespace {

using enum Fp8Tiles;

// Addresses that are nobody's.
void* nowhere() { return reinterpret_cast<void*>(std::uintptr_t{1} << 40U); }
Tensor matrix(DType dtype, std::int64_t rows, std::int64_t columns) { return {nowhere(), dtype, {rows, columns}}; }

ConstFp8Matrix codes(std::int64_t lines, std::int64_t terms, Fp8Format format, Fp8Tiles tiles) {
  Tensor in_lines = matrix(DType::uint8, lines, terms);
  in_lines.stride0 = fp8_line_codes(terms);
  const auto [scale_rows, scale_columns] = fp8_scale_shape(tiles, lines, terms);
  return {in_lines, matrix(DType::float32, scale_rows, scale_columns), format, tiles};
}

Fp8Matmul product_of(Fp8Tiles a, Fp8Tiles b, const Tensor& c, std::int64_t terms) {
  return {.a = codes(c.shape[0], terms, Fp8Format::e5m2, a), .b = codes(c.shape[1], terms, Fp8Format::e4m3, b), .c = c};
}

/// With one scale, with scales of tiles, and one of which c is made in scratch memory.
std::vector<Fp8Matmul> some_products() {
  std::vector<Fp8Matmul> products = {product_of(whole, whole, matrix(DType::bf16, 16, 32), 48),
                                     product_of(vectors, blocks, matrix(DType::bf16, 24, 40), 136),
                                     product_of(vectors, vectors, matrix(DType::float32, 7, 5), 19)};
  products[1].bias = Tensor(nowhere(), DType::bf16, {40});
  products[2].accumulate = true;
  return products;
}

/// The GPU with what a backend or an engine needs.
struct Gpu {
  std::unique_ptr<device::Device> device = device::make_device(device::Kind::cuda);
  std::unique_ptr<device::Stream> stream = device->make_stream();
  std::size_t bytes = workspace_bytes(device::Kind::cuda, 1, Shapes{.tokens = 16, .hidden = 8, .vocab = 1});
  device::Device::Block workspace = device->allocate(bytes), staging = device->allocate(1 << 16, device::Space::pinned);
  cuda::TuningOperands operands{*device, std::size_t{1} << 20, static_cast<cudaStream_t>(stream->native())};

  [[nodiscard]] std::vector<float> run(const Fp8Matmul& product, const MatmulAlgorithms* list, int times) {
    const auto backend = make_backend(*device, *stream, AttentionKernels::own, list);
    backend->set_workspace(Tensor(workspace.get(), DType::bf16, {static_cast<std::int64_t>(bytes / 2)}));
    for (int i = 0; i < times; ++i) backend->run(product);
    device->copy(staging.get(), product.c.data, product.c.size_bytes(), *stream);
    stream->synchronize();
    const auto* const values = static_cast<const float*>(staging.get());
    return {values, values + product.c.num_elements()};
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(matmul_tuning)

BOOST_AUTO_TEST_CASE(products_in_fp8_are_listed_once_each) {
  const auto device = device::make_device(device::Kind::cpu);
  const auto stream = device->make_stream();
  const auto list = make_product_list(*stream);
  std::vector<Fp8Matmul> products = some_products();
  for (int layer = 0; layer < 3; ++layer) {
    for (const Fp8Matmul& product : products) list->run(product);
  }
  BOOST_TEST(listed_products(*list).in_fp8.size() == products.size());
  BOOST_TEST(listed_products(*list).plain.empty());
  // As it is written elsewhere, the library is given another one.
  products[0].c.data = static_cast<std::byte*>(products[0].c.data) + 2;
  list->run(products[0]);
  BOOST_TEST(listed_products(*list).size() == products.size() + 1);
}

BOOST_AUTO_TEST_CASE(products_that_may_run_otherwise_have_other_names) {
  const Fp8Matmul first = product_of(vectors, vectors, matrix(DType::bf16, 16, 32), 160);
  std::vector<Fp8Matmul> products(10, first);
  products[1].a.format = Fp8Format::e4m3;
  products[2].b.format = Fp8Format::e5m2;
  products[3] = product_of(vectors, blocks, first.c, 160);
  products[4] = product_of(blocks, vectors, first.c, 160);
  products[5] = product_of(whole, whole, first.c, 160);
  products[6] = product_of(vectors, vectors, matrix(DType::float32, 16, 32), 160);
  products[7].accumulate = true;
  products[8].bias = Tensor(nowhere(), DType::bf16, {32});
  products[9].c = matrix(DType::bf16, 16, 64).columns(0, 32);
  std::set<std::string> names = {
      key_of(Matmul{.a = matrix(DType::bf16, 16, 160), .b = matrix(DType::bf16, 32, 160), .c = first.c}).text()};
  for (const Fp8Matmul& product : products) names.insert(key_of(product).text());
  BOOST_TEST(names.size() == products.size() + 1);
  BOOST_TEST(key_of(products[3]).text() == "fp8 16x32x160 strides 160,160,32 e5m2 vectors x e4m3 blocks to bf16");
}

BOOST_AUTO_TEST_CASE(what_is_faster_in_fp8_is_taken_and_what_is_known_is_not_measured) {
  const auto gpu = device::make_device(device::Kind::cuda);
  const ListedProducts products{.plain = {}, .in_fp8 = some_products()};
  MatmulTuning slow_first;
  {
    const FastestMatmul fourth(3);
    slow_first = tune_matmul(*gpu, products, {});
  }
  BOOST_TEST(slow_first.num_measured == 3);
  BOOST_TEST(slow_first.algorithms.of_products.size() == 3U);
  BOOST_TEST(slow_first.seconds_first - slow_first.seconds_fastest > 8e-3);  // of three products, 3 ms each
  MatmulAlgorithms less = slow_first.algorithms;
  less.of_products.erase(less.of_products.begin());
  BOOST_TEST(tune_matmul(*gpu, products, less).num_measured == 1);
  const MatmulTuning again = tune_matmul(*gpu, products, slow_first.algorithms);
  BOOST_TEST(again.num_measured == 0);
  BOOST_TEST(to_text(again.algorithms) == to_text(slow_first.algorithms));
  const FastestMatmul first(0);
  const MatmulTuning fast_first = tune_matmul(*gpu, products, {});
  BOOST_TEST(fast_first.seconds_first == fast_first.seconds_fastest);
}

// Of a product that the library is given in parts: blocks of rows and columns, and of sums.
BOOST_AUTO_TEST_CASE(parts_are_measured_that_run) {
  Gpu gpu;
  const auto stream = static_cast<cudaStream_t>(gpu.stream->native());
  const cuda::Workspace scratch{gpu.workspace.get(), cuda::scratch_bytes};
  for (const ProductLimits limits : {ProductLimits{}, ProductLimits{.max_rows = 36}, ProductLimits{.max_span = 6000}}) {
    for (Fp8Matmul product : some_products()) {
      product.c = matrix(product.c.dtype, 101, product.c.shape[1]);
      const std::int64_t terms = product.a.codes.shape[1];
      product.a = codes(101, terms, product.a.format, product.a.tiles);
      const std::optional<Fp8Matmul> placed = gpu.operands.place(product);
      BOOST_REQUIRE(placed.has_value());
      const cuda::Fp8MatmulEngine engine(stream, limits);
      std::set<std::string> parts, measured;
      for (const Fp8ProductKey& part : engine.parts_of(product)) parts.insert(part.text());
      const auto timings = engine.time(*placed, scratch, {});
      for (const auto& [name, timing] : timings) measured.insert(name);
      BOOST_TEST(!parts.empty());
      BOOST_TEST(measured == parts, boost::test_tools::per_element());
      MatmulAlgorithms known;
      known.of_products.emplace(*parts.begin(), "");
      BOOST_TEST(engine.time(*placed, scratch, known).size() == parts.size() - 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_list_decides_how_products_in_fp8_run_and_changes_no_number) {
  Gpu gpu;
  constexpr int slow_ms = 20, times = 3;
  for (Fp8Matmul product : some_products()) {
    product.c = matrix(DType::float32, product.c.shape[0], product.c.shape[1]);
    product.accumulate = false;
    MatmulAlgorithms listed;
    {
      const FastestMatmul before_all(-slow_ms);  // so the first is the fastest, and takes that long
      listed = tune_matmul(*gpu.device, {.plain = {}, .in_fp8 = {product}}, {}).algorithms;
    }
    BOOST_REQUIRE(listed.of_products.size() == 1U);
    MatmulAlgorithms damaged = listed, foreign = listed, bias_of_other = listed;
    damaged.of_products.begin()->second = "plain nonsense";
    foreign.of_products.begin()->second = "plain 1 2 3 4 5 6 7 8";
    // The numbers of the same product with a bias, or without one.
    Fp8Matmul other = product;
    other.bias = product.bias.data != nullptr ? ConstTensor() : Tensor(nowhere(), DType::bf16, {product.c.shape[1]});
    bias_of_other.of_products.begin()->second =
        tune_matmul(*gpu.device, {.plain = {}, .in_fp8 = {other}}, {}).algorithms.of_products.begin()->second;
    const std::optional<Fp8Matmul> placed = gpu.operands.place(product);
    BOOST_REQUIRE(placed.has_value());
    const std::vector<float> expected = gpu.run(*placed, nullptr, 1);
    const auto begin = std::chrono::steady_clock::now();
    BOOST_TEST(gpu.run(*placed, &listed, times) == expected, boost::test_tools::per_element());
    BOOST_TEST(((std::chrono::steady_clock::now() - begin) >= std::chrono::milliseconds(times * slow_ms)));
    for (const MatmulAlgorithms* list : {&damaged, &foreign, &bias_of_other}) {
      BOOST_TEST(gpu.run(*placed, list, 1) == expected, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
