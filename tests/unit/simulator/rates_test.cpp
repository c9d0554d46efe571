// SPDX-License-Identifier: Apache-2.0
// Rates that were measured: between their points, beyond them, and in place of the few of a maker's sheet.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "sft/simulator/rates.hpp"

BOOST_AUTO_TEST_SUITE(rates)

namespace {

using namespace sft::simulator;
using sft::ops::Pass;

const auto nearly = boost::test_tools::tolerance(1e-9);

Rates few() {
  return {.products = {{100, 1e9}},
          .attention_forward_flops_per_s = 1e9,
          .attention_backward_flops_per_s = 2e9,
          .memory_bytes_per_s = 1e8,
          .host_bytes_per_s = 1e8,
          .launch_s = 1e-6};
}

/// Products whose rate is m^3 n^2 k for m, n and k of 1 and 16.
ProductGrid grid() {
  ProductGrid grid{.sides = {1, 16}};
  for (auto& rates : grid.flops_per_s) {
    for (const double m : grid.sides) {
      for (const double n : grid.sides) {
        for (const double k : grid.sides) rates.push_back(m * m * m * n * n * k);
      }
    }
  }
  return grid;
}

}  // namespace

BOOST_AUTO_TEST_CASE(products_follow_the_grid_by_logarithms) {
  const ProductGrid of = grid();
  BOOST_TEST(of.rate(ProductForm::none, 1, 1, 1) == 1, nearly);
  BOOST_TEST(of.rate(ProductForm::none, 16, 16, 16) == std::pow(16.0, 6), nearly);
  // Powers of the sides are straight lines by logarithms.
  BOOST_TEST(of.rate(ProductForm::first, 2, 4, 8) == 8.0 * 16 * 8, nearly);
  BOOST_TEST(of.rate(ProductForm::second, 100, 4, 1000) == std::pow(16.0, 3) * 16 * 16, nearly);  // ends stay
}

BOOST_AUTO_TEST_CASE(measured_rates_go_before_the_few) {
  Rates rates = few();
  BOOST_TEST(rates.products_s(ProductForm::none, 1, 100, 100, 100, 0) == 1e-6 + 2e6 / 1e9, nearly);
  BOOST_TEST(rates.pass_s(Pass::copy, 100) == 1e-6 + 1e-6, nearly);
  BOOST_TEST(rates.attention_forward_s(1000, 10, 0) == 1e-6 + 1e-6, nearly);
  rates.product_grid = grid();
  BOOST_TEST(rates.products_s(ProductForm::none, 3, 16, 16, 16, 1e30) == 3 * 2 * std::pow(16.0, 3) / std::pow(16.0, 6),
             nearly);
  rates.passes[static_cast<std::size_t>(Pass::copy)] = {{100, 1e6}, {10000, 1e8}};
  BOOST_TEST(rates.pass_s(Pass::copy, 1000) == 1000 / 1e7, nearly);
  BOOST_TEST(rates.pass_s(Pass::copy, 10) == 10 / 1e6, nearly);
  BOOST_TEST(rates.pass_s(Pass::add, 100) == 1e-6 + 1e-6, nearly);  // was not measured
  rates.attention.backward = {{10, 1e6}};
  BOOST_TEST(rates.attention_backward_s(1000, 77, 0) == 1e-3, nearly);
}

BOOST_AUTO_TEST_CASE(a_share_of_the_processor_scales_every_rate) {
  Rates rates = few();
  rates.product_grid = grid();
  rates.passes[static_cast<std::size_t>(Pass::update)] = {{1, 1e6}};
  rates.attention.forward = {{10, 1e6}};
  const Rates half = rates.scaled(0.5);
  BOOST_TEST(
      half.products_s(ProductForm::none, 1, 7, 7, 7, 0) == 2 * rates.products_s(ProductForm::none, 1, 7, 7, 7, 0),
      nearly);
  BOOST_TEST(half.pass_s(Pass::update, 50) == 2 * rates.pass_s(Pass::update, 50), nearly);
  BOOST_TEST(half.pass_s(Pass::add, 50) == 2 * rates.pass_s(Pass::add, 50), nearly);
  BOOST_TEST(half.attention_forward_s(5, 5, 5) == 2 * rates.attention_forward_s(5, 5, 5), nearly);
  BOOST_TEST(half.attention_backward_s(5, 5, 5) == 2 * rates.attention_backward_s(5, 5, 5), nearly);
}

BOOST_AUTO_TEST_SUITE_END()
