// SPDX-License-Identifier: Apache-2.0
#include "sft/model/linear/weight_factors.hpp"

#include <cblas.h>
#include <lapacke.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::model {

namespace {

/// A matrix in float64, column-major, as LAPACK reads it.
struct Matrix {
  Matrix(std::int64_t rows_in, std::int64_t columns_in)
      : rows(checked_cast<int>(rows_in)), columns(checked_cast<int>(columns_in)), values(rows_in * columns_in) {}

  [[nodiscard]] double* column(std::int64_t index) { return values.data() + index * rows; }
  [[nodiscard]] const double* column(std::int64_t index) const { return values.data() + index * rows; }

  int rows, columns;
  std::vector<double> values;
};

/// W, or its transpose: what is row-major is the transpose column by column.
Matrix matrix_of(std::span<const float> weight, const WeightShape& shape, bool transposed) {
  Matrix result(transposed ? shape.columns : shape.rows, transposed ? shape.rows : shape.columns);
  if (transposed) {
    std::ranges::copy(weight, result.values.begin());
    return result;
  }
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t column = 0; column < shape.columns; ++column) {
      result.column(column)[row] = weight[row * shape.columns + column];
    }
  }
  return result;
}

void require_done(lapack_int status, const char* what) {
  SFT_ENSURE(status == 0, what);  // numbers are finite, and sizes those of matrices
}

Matrix product(const Matrix& a, bool transpose_a, const Matrix& b) {
  const int inner = transpose_a ? a.rows : a.columns;
  Matrix result(transpose_a ? a.columns : a.rows, b.columns);
  cblas_dgemm(CblasColMajor, transpose_a ? CblasTrans : CblasNoTrans, CblasNoTrans, result.rows, result.columns, inner,
              1.0, a.values.data(), a.rows, b.values.data(), b.rows, 0.0, result.values.data(), result.rows);
  return result;
}

/// Its columns, which are not more than its rows, become an orthonormal basis by Householder's reflections: Q.
void make_orthonormal(Matrix& matrix) {
  std::vector<double> factors(matrix.columns);
  require_done(
      LAPACKE_dgeqrf(LAPACK_COL_MAJOR, matrix.rows, matrix.columns, matrix.values.data(), matrix.rows, factors.data()),
      "a matrix has a QR decomposition");
  require_done(LAPACKE_dorgqr(LAPACK_COL_MAJOR, matrix.rows, matrix.columns, matrix.columns, matrix.values.data(),
                              matrix.rows, factors.data()),
               "reflections have a product");
}

/// Singular triplets of a tall matrix, the largest first: left vectors as columns, and right vectors times values.
struct Triplets {
  Matrix left, scaled_right;
};

/// Factors of such triplets of W, or with `of_transpose` of its transpose.
WeightFactors factors_of(const Triplets& triplets, bool of_transpose, const WeightShape& shape,
                         const config::AdapterSize& size) {
  WeightFactors result{.a = std::vector<float>(size.rank * shape.columns),
                       .b = std::vector<float>(shape.rows * size.rank)};
  for (std::int64_t r = 0; r < size.rank; ++r) {
    const double* left = triplets.left.column(r);
    const double* right = triplets.scaled_right.column(r);
    const double value = cblas_dnrm2(triplets.scaled_right.rows, right, 1);
    if (value == 0.0) continue;  // beyond the rank of W
    const double root = std::sqrt(value / size.scale);
    const double* of_rows = of_transpose ? right : left;
    const double* of_columns = of_transpose ? left : right;
    double row_factor = of_transpose ? root / value : root, column_factor = of_transpose ? root : root / value;
    const double largest = of_rows[cblas_idamax(checked_cast<int>(shape.rows), of_rows, 1)];
    if (largest < 0.0) row_factor = -row_factor, column_factor = -column_factor;
    for (std::int64_t i = 0; i < shape.rows; ++i) {
      result.b[i * size.rank + r] = static_cast<float>(of_rows[i] * row_factor);
    }
    for (std::int64_t i = 0; i < shape.columns; ++i) {
      result.a[r * shape.columns + i] = static_cast<float>(of_columns[i] * column_factor);
    }
  }
  return result;
}

}  // namespace

WeightFactors principal_factors(std::span<const float> weight, const WeightShape& shape,
                                const config::AdapterSize& size) {
  // Left vectors are eigenvectors of the product with the transpose, of the lesser of the two sizes. Its eigenvalues
  // are squares, so singular values are good to 1e-8 of the largest: better than in float32.
  const bool of_transpose = shape.rows > shape.columns;
  const Matrix wide = matrix_of(weight, shape, of_transpose);
  Matrix squares(wide.rows, wide.rows), vectors(wide.rows, size.rank);
  cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, wide.rows, wide.columns, 1.0, wide.values.data(), wide.rows, 0.0,
              squares.values.data(), wide.rows);
  std::vector<double> values(wide.rows);
  std::vector<lapack_int> support(2 * static_cast<std::size_t>(wide.rows));
  lapack_int num_found = 0;
  const int rank = checked_cast<int>(size.rank);
  require_done(LAPACKE_dsyevr(LAPACK_COL_MAJOR, 'V', 'I', 'L', wide.rows, squares.values.data(), wide.rows, 0.0, 0.0,
                              wide.rows - rank + 1, wide.rows, 0.0, &num_found, values.data(), vectors.values.data(),
                              wide.rows, support.data()),
               "a symmetric matrix has eigenvectors");
  SFT_ENSURE(num_found == rank, "as many vectors as were asked for");
  Matrix left(wide.rows, size.rank);  // the largest first
  for (std::int64_t r = 0; r < size.rank; ++r) {
    std::copy_n(vectors.column(size.rank - 1 - r), wide.rows, left.column(r));
  }
  Matrix scaled_right = product(wide, /*transpose_a=*/true, left);
  return factors_of({std::move(left), std::move(scaled_right)}, of_transpose, shape, size);
}

WeightFactors principal_factors_near(std::span<const float> weight, const WeightShape& shape,
                                     const config::AdapterSize& size, std::int64_t num_iterations, std::uint64_t seed) {
  const bool of_transpose = shape.rows < shape.columns;
  const Matrix tall = matrix_of(weight, shape, of_transpose);
  Matrix start(tall.columns, size.rank);
  std::mt19937_64 bits(seed);
  std::normal_distribution<double> normal;
  std::ranges::generate(start.values, [&] { return normal(bits); });
  Matrix basis = product(tall, /*transpose_a=*/false, start);
  make_orthonormal(basis);
  for (std::int64_t i = 0; i < num_iterations; ++i) {
    Matrix other = product(tall, /*transpose_a=*/true, basis);
    make_orthonormal(other);
    basis = product(tall, /*transpose_a=*/false, other);
    make_orthonormal(basis);
  }
  Matrix small = product(basis, /*transpose_a=*/true, tall);  // (R, columns)
  const int rank = checked_cast<int>(size.rank);
  std::vector<double> values(rank);
  Matrix left_of_small(rank, rank), right(rank, tall.columns);
  require_done(LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'S', rank, tall.columns, small.values.data(), rank, values.data(),
                              left_of_small.values.data(), rank, right.values.data(), rank),
               "a matrix has singular values");
  Matrix scaled_right(tall.columns, size.rank);
  for (std::int64_t r = 0; r < size.rank; ++r) {
    for (std::int64_t i = 0; i < tall.columns; ++i) scaled_right.column(r)[i] = values[r] * right.column(i)[r];
  }
  return factors_of({product(basis, /*transpose_a=*/false, left_of_small), std::move(scaled_right)}, of_transpose,
                    shape, size);
}

WeightFactors orthogonal_factors(std::span<const float> weight, const WeightShape& shape, std::int64_t rank) {
  const Matrix transposed = matrix_of(weight, shape, /*transposed=*/true);
  Matrix q(shape.rows, rank);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t r = 0; r < rank; ++r) q.column(r)[row] = weight[row * shape.columns + r];
  }
  make_orthonormal(q);
  const Matrix r_transposed = product(transposed, /*transpose_a=*/false, q);  // (M, R)
  WeightFactors result{.a = std::vector<float>(rank * shape.columns), .b = std::vector<float>(shape.rows * rank)};
  for (std::int64_t r = 0; r < rank; ++r) {
    // R is an upper triangle: what rounding left before its diagonal is none of it.
    for (std::int64_t i = r; i < shape.columns; ++i) {
      result.a[r * shape.columns + i] = static_cast<float>(r_transposed.column(r)[i]);
    }
    for (std::int64_t i = 0; i < shape.rows; ++i) result.b[i * rank + r] = static_cast<float>(q.column(r)[i]);
  }
  return result;
}

WeightFactors weight_factors(const config::AdapterInit& init, std::span<const float> weight, const WeightShape& shape,
                             const config::AdapterSize& size, std::uint64_t seed) {
  SFT_ENSURE(init.splits_weights(), "these adapters begin with a part of the weight");
  if (init.kind == config::LoraInit::olora) return orthogonal_factors(weight, shape, size.rank);
  if (init.iterations) return principal_factors_near(weight, shape, size, *init.iterations, seed);
  return principal_factors(weight, shape, size);
}

std::size_t weight_factors_bytes(const config::AdapterInit& init, const WeightShape& shape, std::int64_t rank) {
  const std::int64_t lesser = std::min(shape.rows, shape.columns), sides = shape.rows + shape.columns;
  const bool takes_squares = init.kind == config::LoraInit::pissa && !init.iterations;
  // W, its squares, three bases of each side, LAPACK's work for each row, and A and B.
  const std::int64_t num_doubles =
      shape.rows * shape.columns + (takes_squares ? lesser * lesser : 0) + 3 * sides * rank + 40 * sides;
  return static_cast<std::size_t>(num_doubles) * sizeof(double) +
         static_cast<std::size_t>(sides * rank) * sizeof(float);
}

}  // namespace sft::model
