// SPDX-License-Identifier: Apache-2.0
// Tiles in software, as Intel's manual has the instructions.

#include "unit/ops/amx/tile_registers.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "unit/ops/owned.hpp"

namespace sft::ops::testing {
namespace {

/// The memory that a configuration is read from.
struct TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  TileConfig& tile(int index, int num_rows, int num_bytes) {
    rows[index] = static_cast<std::uint8_t>(num_rows);
    row_bytes[index] = static_cast<std::uint16_t>(num_bytes);
    return *this;
  }
};

/// Sums (5, 3) in tile 0, left (5, 8) in tile 1, right (8, 3) in tile 2.
TileConfig small_product() { return TileConfig().tile(0, 5, 12).tile(1, 5, 16).tile(2, 4, 12); }

std::vector<BFloat16> random_bf16(std::size_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<BFloat16> values(count);
  for (BFloat16& x : values) x = bf16_of(normal(generator));
  return values;
}

/// 1 x 1 sums of a single pair.
float product_of(float sum, std::array<BFloat16, 2> left, std::array<BFloat16, 2> right) {
  TileRegisters tiles;
  const TileConfig config = TileConfig().tile(0, 1, 4).tile(1, 1, 4).tile(2, 1, 4);
  tiles.configure(&config);
  tiles.load(0, &sum, 4);
  tiles.load(1, left.data(), 4);
  tiles.load(2, right.data(), 4);
  tiles.multiply_add(0, 1, 2);
  tiles.store(0, &sum, 4);
  tiles.release();
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tile_registers)

BOOST_AUTO_TEST_CASE(a_product_adds_pairs_in_the_order_of_the_manual) {
  constexpr int rows = 5, columns = 3, pairs = 4;
  const std::vector<BFloat16> left = random_bf16(rows * 2 * pairs), right = random_bf16(pairs * 2 * columns);
  std::vector<float> sums(rows * columns, 0.1F), expected = sums;
  for (int m = 0; m < rows; ++m) {
    for (int n = 0; n < columns; ++n) {
      float parts[2] = {};
      for (int p = 0; p < pairs; ++p) {
        for (int half = 0; half < 2; ++half) {
          parts[half] = std::fma(float_of(left[m * 2 * pairs + 2 * p + half]),
                                 float_of(right[p * 2 * columns + 2 * n + half]), parts[half]);
        }
      }
      const float sum = parts[0] + parts[1];
      expected[m * columns + n] += sum;
    }
  }
  TileRegisters tiles;
  const TileConfig config = small_product();
  tiles.configure(&config);
  tiles.load(0, sums.data(), columns * 4);
  tiles.load(1, left.data(), 4 * pairs);
  tiles.load(2, right.data(), 4 * columns);
  tiles.multiply_add(0, 1, 2);
  tiles.store(0, sums.data(), columns * 4);
  tiles.release();
  BOOST_TEST(sums == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(numbers_below_the_normal_ones_are_zero) {
  constexpr float smallest = std::numeric_limits<float>::min(), denormal = smallest / 4;
  const BFloat16 zero{}, one = bf16_of(1.0F), half = bf16_of(0.5F), tiny = bf16_of(smallest);
  BOOST_TEST(product_of(0.0F, {tiny, zero}, {one, zero}) == smallest);
  BOOST_TEST(product_of(0.0F, {tiny, zero}, {half, zero}) == 0.0F);    // written
  BOOST_TEST(product_of(denormal, {zero, zero}, {one, one}) == 0.0F);  // read
  BOOST_TEST(product_of(0.0F, {bf16_of(denormal), zero}, {bf16_of(16.0F), zero}) == 0.0F);
  BOOST_TEST(product_of(0.0F, {zero, tiny}, {zero, half}) == 0.0F);
}

BOOST_AUTO_TEST_CASE(loads_and_stores_keep_to_the_shape) {
  TileRegisters tiles;
  const TileConfig config = TileConfig().tile(3, 2, 8).tile(4, 2, 8);
  tiles.configure(&config);
  const std::vector<float> in = {1, 2, 3, 4, 5, 6, 7, 8};
  tiles.load(3, in.data(), 16);
  std::vector<float> out(8, -1.0F);
  tiles.store(3, out.data(), 12);
  BOOST_TEST(out == (std::vector<float>{1, 2, -1, 5, 6, -1, -1, -1}), boost::test_tools::per_element());
  tiles.zero(3);
  tiles.store(3, out.data(), 12);
  BOOST_TEST(out == (std::vector<float>{0, 0, -1, 0, 0, -1, -1, -1}), boost::test_tools::per_element());
  tiles.load(3, in.data(), 16);
  tiles.configure(&config);
  tiles.store(3, out.data(), 8);
  BOOST_TEST(out[0] == 0.0F);
  tiles.release();
}

BOOST_AUTO_TEST_CASE(wrong_configurations_fault) {
  const std::vector<std::function<void(TileConfig&)>> mistakes = {
      [](TileConfig& c) { c.palette = 2; },      [](TileConfig& c) { c.start_row = 1; },
      [](TileConfig& c) { c.reserved[13] = 1; }, [](TileConfig& c) { c.tile(0, 17, 64); },
      [](TileConfig& c) { c.tile(0, 16, 65); },  [](TileConfig& c) { c.tile(0, 0, 64); },
      [](TileConfig& c) { c.tile(0, 16, 0); },   [](TileConfig& c) { c.tile(8, 16, 64); },
  };
  for (const auto& mistake : mistakes) {
    TileRegisters tiles;
    TileConfig config = small_product();
    mistake(config);
    BOOST_CHECK_THROW(tiles.configure(&config), TileFault);
    BOOST_CHECK_THROW(tiles.zero(0), TileFault);
  }
}

BOOST_AUTO_TEST_CASE(products_of_tiles_that_do_not_fit_fault) {
  const auto product = [](const TileConfig& config, int sums, int left, int right) {
    TileRegisters tiles;
    tiles.configure(&config);
    const auto release = [&] { tiles.release(); };
    try {
      tiles.multiply_add(sums, left, right);
    } catch (...) {
      release();
      throw;
    }
    release();
  };
  BOOST_CHECK_NO_THROW(product(small_product(), 0, 1, 2));
  BOOST_CHECK_THROW(product(small_product().tile(0, 4, 12), 0, 1, 2), TileFault);  // rows
  BOOST_CHECK_THROW(product(small_product().tile(0, 5, 16), 0, 1, 2), TileFault);  // columns
  BOOST_CHECK_THROW(product(small_product().tile(2, 3, 12), 0, 1, 2), TileFault);  // pairs
  BOOST_CHECK_THROW(product(small_product().tile(1, 5, 18), 0, 1, 2), TileFault);
  BOOST_CHECK_THROW(product(small_product(), 0, 1, 3), TileFault);  // not configured
  const TileConfig square = TileConfig().tile(0, 4, 16).tile(1, 4, 16).tile(2, 4, 16);
  BOOST_CHECK_THROW(product(square, 0, 0, 1), TileFault);
  BOOST_CHECK_THROW(product(square, 0, 1, 0), TileFault);
  BOOST_CHECK_THROW(product(square, 0, 1, 1), TileFault);
  BOOST_CHECK_THROW(product(square, 0, 1, 8), TileFault);
}

BOOST_AUTO_TEST_CASE(tiles_are_those_of_a_thread_while_they_are_configured) {
  const TileConfig config = small_product();
  float number = 0.0F;
  tiles_of_thread().configure(&config);
  BOOST_TEST(num_configured_threads() == 1);
  BOOST_CHECK_NO_THROW(tiles_of_thread().zero(0));
  int faults = 0;
  std::thread([&] {
    try {
      tiles_of_thread().zero(0);
    } catch (const TileFault&) {
      ++faults;
    }
  }).join();
  BOOST_TEST(faults == 1);
  tiles_of_thread().release();
  BOOST_TEST(num_configured_threads() == 0);
  BOOST_CHECK_THROW(tiles_of_thread().zero(0), TileFault);
  BOOST_CHECK_THROW(tiles_of_thread().load(0, &number, 4), TileFault);
  BOOST_CHECK_THROW(tiles_of_thread().store(0, &number, 4), TileFault);
  BOOST_CHECK_THROW(tiles_of_thread().multiply_add(0, 1, 2), TileFault);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
