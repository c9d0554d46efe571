// SPDX-License-Identifier: Apache-2.0
// Matrix products that are too small for a library's speed to matter: their sums are kept in float64 instead, which
// makes them exact to the last bit of the result in all but contrived cases.

#include "ops/cpu/kernels/run.hpp"
#include "ops/cpu/kernels/types.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

constexpr std::int64_t lanes = SFT_VECTOR_BITS / 64;
using Doubles [[gnu::vector_size(SFT_VECTOR_BITS / 8), gnu::aligned(8), gnu::may_alias]] = double;

constexpr int panel_vectors = small_matmul_panel / lanes;
constexpr int block_rows = 4;

/// Columns [column, column + small_matmul_panel) of b as float64, zeros beyond the last.
void pack(const MatmulArguments& product, std::int64_t column, double* panel) {
  const std::int64_t count = min(small_matmul_panel, product.n - column);
  for (std::int64_t p = 0; p < product.k; ++p) {
    const float* b = static_cast<const float*>(product.b) + p * product.b_row_stride + column * product.b_column_stride;
    double* out = panel + p * small_matmul_panel;
    for (std::int64_t j = 0; j < small_matmul_panel; ++j) {
      out[j] = j < count ? static_cast<double>(b[j * product.b_column_stride]) : 0.0;
    }
  }
}

/// `rows` rows of c from `row` on, in the columns of the panel.
template <int rows>
void multiply(const MatmulArguments& product, std::int64_t row, std::int64_t column, const double* panel) {
  Doubles sums[rows][panel_vectors] = {};
  const float* a = static_cast<const float*>(product.a) + row * product.a_row_stride;
  for (std::int64_t p = 0; p < product.k; ++p) {
    const auto* right = reinterpret_cast<const Doubles*>(panel + p * small_matmul_panel);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const auto left = static_cast<double>(a[i * product.a_row_stride + p * product.a_column_stride]);
#pragma GCC unroll 8
      for (int v = 0; v < panel_vectors; ++v) sums[i][v] += left * right[v];
    }
  }
  const std::int64_t count = min(small_matmul_panel, product.n - column);
  const auto* bias = static_cast<const float*>(product.bias);
  for (int i = 0; i < rows; ++i) {
    float* c = static_cast<float*>(product.c) + (row + i) * product.c_stride + column;
    for (std::int64_t j = 0; j < count; ++j) {
      double sum = sums[i][j / lanes][j % lanes];
      if (bias != nullptr) sum += static_cast<double>(bias[column + j]);
      if (product.accumulate) sum += static_cast<double>(c[j]);
      c[j] = static_cast<float>(sum);
    }
  }
}

}  // namespace

void small_matmul(const MatmulArguments& product, double* panel) {
  for (std::int64_t column = 0; column < product.n; column += small_matmul_panel) {
    pack(product, column, panel);
    std::int64_t row = 0;
    for (; row + block_rows <= product.m; row += block_rows) multiply<block_rows>(product, row, column, panel);
    for (; row < product.m; ++row) multiply<1>(product, row, column, panel);
  }
}

}  // namespace sft::ops::cpu::SFT_ISA
