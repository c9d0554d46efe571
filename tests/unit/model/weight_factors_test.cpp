// SPDX-License-Identifier: Apache-2.0
// The part of a weight that an adapter begins with.
#include "sft/model/linear/weight_factors.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using sft::config::AdapterSize;
using sft::model::WeightFactors;
using sft::model::WeightShape;

using Numbers = std::vector<double>;

/// Orthonormal vectors of `size` numbers, one behind the other: Gram-Schmidt.
Numbers orthonormal(std::int64_t count, std::int64_t size, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  std::normal_distribution<double> normal;
  Numbers vectors(count * size);
  std::ranges::generate(vectors, [&] { return normal(bits); });
  for (std::int64_t i = 0; i < count; ++i) {
    double* own = vectors.data() + i * size;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t j = 0; j < i; ++j) {
        const double* other = vectors.data() + j * size;
        double product = 0.0;
        for (std::int64_t k = 0; k < size; ++k) product += own[k] * other[k];
        for (std::int64_t k = 0; k < size; ++k) own[k] -= product * other[k];
      }
    }
    double squares = 0.0;
    for (std::int64_t k = 0; k < size; ++k) squares += own[k] * own[k];
    for (std::int64_t k = 0; k < size; ++k) own[k] /= std::sqrt(squares);
  }
  return vectors;
}

/// A weight of known singular values and vectors.
struct Known {
  WeightShape shape;
  Numbers values, left, right;  ///< left and right vectors, one behind the other

  [[nodiscard]] std::vector<float> sum(std::int64_t first, std::int64_t count) const {
    Numbers total(shape.rows * shape.columns);
    for (std::int64_t r = first; r < first + count; ++r) {
      for (std::int64_t i = 0; i < shape.rows; ++i) {
        for (std::int64_t j = 0; j < shape.columns; ++j) {
          total[i * shape.columns + j] += values[r] * left[r * shape.rows + i] * right[r * shape.columns + j];
        }
      }
    }
    return {total.begin(), total.end()};
  }
};

Known known_weight(const WeightShape& shape) {
  const std::int64_t count = std::min(shape.rows, shape.columns);
  Known known{shape, Numbers(count), orthonormal(count, shape.rows, 1), orthonormal(count, shape.columns, 2)};
  for (std::int64_t i = 0; i < count; ++i) known.values[i] = 3.0 * std::pow(0.8, static_cast<double>(i));
  return known;
}

/// scale b a.
std::vector<float> product_of(const WeightFactors& factors, const WeightShape& shape, const AdapterSize& size) {
  std::vector<float> result(shape.rows * shape.columns);
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      double sum = 0.0;
      for (std::int64_t r = 0; r < size.rank; ++r) {
        sum +=
            static_cast<double>(factors.b[i * size.rank + r]) * static_cast<double>(factors.a[r * shape.columns + j]);
      }
      result[i * shape.columns + j] = static_cast<float>(size.scale * sum);
    }
  }
  return result;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i] - b[i])));
  return worst;
}

constexpr WeightShape shapes[] = {{12, 30}, {30, 12}, {16, 16}, {5, 1}, {1, 7}};
constexpr double rounding = 1e-6;  // of float32, for weights whose largest singular value is 3

}  // namespace

BOOST_AUTO_TEST_SUITE(weight_factors)

BOOST_AUTO_TEST_CASE(principal_factors_are_the_largest_singular_triplets) {
  for (const WeightShape& shape : shapes) {
    const Known known = known_weight(shape);
    const std::int64_t most = std::min(shape.rows, shape.columns);
    const std::vector<float> weight = known.sum(0, most);
    for (const std::int64_t rank : {std::int64_t{1}, std::min<std::int64_t>(4, most), most}) {
      const AdapterSize size{rank, 0.5};
      BOOST_TEST_CONTEXT(shape.rows << " x " << shape.columns << ", rank " << rank) {
        const WeightFactors factors = sft::model::principal_factors(weight, shape, size);
        BOOST_TEST(distance(product_of(factors, shape, size), known.sum(0, rank)) < rounding);
        for (std::int64_t r = 0; r < rank; ++r) {
          // Both sides have the root of value / scale as norm, and the sign is fixed.
          double squares = 0.0;
          float largest = 0.0F;
          for (std::int64_t i = 0; i < shape.rows; ++i) {
            const float number = factors.b[i * rank + r];
            squares += static_cast<double>(number * number);
            if (std::abs(number) > std::abs(largest)) largest = number;
          }
          BOOST_TEST(std::abs(squares - known.values[r] / 0.5) < 1e-5);
          BOOST_TEST(largest > 0.0F);
        }
        // The same bits every time.
        const WeightFactors again = sft::model::principal_factors(weight, shape, size);
        BOOST_TEST((again.a == factors.a && again.b == factors.b));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(iterations_come_near_them) {
  for (const WeightShape& shape : shapes) {
    const Known known = known_weight(shape);
    const std::int64_t most = std::min(shape.rows, shape.columns), rank = std::min<std::int64_t>(4, most);
    const std::vector<float> weight = known.sum(0, most);
    const AdapterSize size{rank, 2.0};
    const auto error = [&](std::int64_t num_iterations) {
      const auto factors = sft::model::principal_factors_near(weight, shape, size, num_iterations, 7);
      return distance(product_of(factors, shape, size), known.sum(0, rank));
    };
    BOOST_TEST_CONTEXT(shape.rows << " x " << shape.columns) {
      BOOST_TEST(error(64) < rounding);  // 0.8^128 of a start
      if (rank == most) {
        BOOST_TEST(error(0) < rounding);  // the image is all there is
      } else {
        BOOST_TEST(error(0) > 1e-3);
        BOOST_TEST(error(2) < error(0));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(orthogonal_factors_are_those_of_householder) {
  for (const WeightShape& shape : shapes) {
    const std::int64_t most = std::min(shape.rows, shape.columns);
    const std::vector<float> weight = known_weight(shape).sum(0, most);
    const WeightFactors all = sft::model::orthogonal_factors(weight, shape, most);
    BOOST_TEST_CONTEXT(shape.rows << " x " << shape.columns) {
      BOOST_TEST(distance(product_of(all, shape, {most, 1.0}), weight) < rounding);
      for (std::int64_t r = 0; r < most; ++r) {
        for (std::int64_t j = 0; j < r; ++j) BOOST_TEST(all.a[r * shape.columns + j] == 0.0F);
        for (std::int64_t s = 0; s <= r; ++s) {
          double product = 0.0;
          for (std::int64_t i = 0; i < shape.rows; ++i) {
            product += static_cast<double>(all.b[i * most + r]) * static_cast<double>(all.b[i * most + s]);
          }
          BOOST_TEST(std::abs(product - (r == s ? 1.0 : 0.0)) < rounding);
        }
      }
      // Fewer are the first of all.
      const std::int64_t rank = std::min<std::int64_t>(3, most);
      const WeightFactors few = sft::model::orthogonal_factors(weight, shape, rank);
      for (std::int64_t i = 0; i < rank * shape.columns; ++i) BOOST_TEST(std::abs(few.a[i] - all.a[i]) < rounding);
      // A reflection turns a column to the other side of its first element (LAPACK's dlarfg).
      if (shape.rows > 1) BOOST_TEST(std::signbit(all.a[0]) != std::signbit(weight[0]));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_weight_of_too_few_directions_leaves_zeros) {
  const WeightShape shape{6, 4};
  const WeightFactors none =
      sft::model::principal_factors(std::vector<float>(shape.rows * shape.columns), shape, {2, 1.0});
  const auto is_zero = [](float number) { return number == 0.0F; };
  BOOST_TEST(std::ranges::all_of(none.a, is_zero));
  BOOST_TEST(std::ranges::all_of(none.b, is_zero));
}

BOOST_AUTO_TEST_SUITE_END()
