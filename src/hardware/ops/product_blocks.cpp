// SPDX-License-Identifier: Apache-2.0
#include "ops/product_blocks.hpp"

#include <algorithm>

#include "ops/product_key.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops {

namespace {

constexpr std::int64_t block_multiple = 128;

/// The rows of x that a span of `max_span` elements holds.
std::int64_t rows_within(const ConstTensor& x, std::int64_t max_span) {
  const std::int64_t width = x.shape[1];
  return width > max_span ? 0 : (max_span - width) / row_stride(x) + 1;
}

/// The size of even parts of `size`, each at most `most`.
std::int64_t even_part(std::int64_t size, std::int64_t most) {
  if (size <= most) return size;
  SFT_ENSURE(most >= 1, "matmul: a row fits into what the library can index");
  const std::int64_t multiple = most >= block_multiple ? block_multiple : 1;
  const std::int64_t largest = most / multiple * multiple, num_parts = (size + largest - 1) / largest;
  const std::int64_t even = (size + num_parts - 1) / num_parts;
  return (even + multiple - 1) / multiple * multiple;
}

/// Rows [row, row + rows) and columns [column, column + columns) of an operand, of which `transposed` exchanges the
/// two.
ConstTensor block(const ConstTensor& x, bool transposed, std::int64_t row, std::int64_t rows, std::int64_t column,
                  std::int64_t columns) {
  return transposed ? x.rows(column, columns).columns(row, rows) : x.rows(row, rows).columns(column, columns);
}

}  // namespace

ProductBlock block_of(const Matmul& product, const ProductLimits& limits) {
  const ConstTensor c = product.c;
  const std::int64_t depth = product.a.shape[product.transpose_a ? 0 : 1];
  std::int64_t m = std::min(limits.max_rows, rows_within(c, limits.max_span)), n = limits.max_rows, k = depth;
  const auto fit = [&](const ConstTensor& x, std::int64_t& rows) {
    rows = std::min(rows, rows_within(x, limits.max_span));
  };
  fit(product.a, product.transpose_a ? k : m);
  fit(product.b, product.transpose_b ? n : k);
  return {even_part(c.shape[0], m), even_part(c.shape[1], n), even_part(depth, k)};
}

void for_each_block(const Matmul& product, const ProductLimits& limits, const std::function<void(const Matmul&)>& run) {
  const std::int64_t m = product.c.shape[0], n = product.c.shape[1], k = product.a.shape[product.transpose_a ? 0 : 1];
  const ProductBlock size = block_of(product, limits);
  if (size.m == m && size.n == n && size.k == k) {
    run(product);
    return;
  }
  SFT_ENSURE(size.k == k || product.c.dtype == DType::float32, "matmul: sums of blocks are added up in float32");
  for (std::int64_t row = 0; row < m; row += size.m) {
    const std::int64_t rows = std::min(size.m, m - row);
    for (std::int64_t column = 0; column < n; column += size.n) {
      const std::int64_t columns = std::min(size.n, n - column);
      for (std::int64_t term = 0; term < k; term += size.k) {
        const std::int64_t terms = std::min(size.k, k - term);
        Matmul part = product;
        part.a = block(product.a, product.transpose_a, row, rows, term, terms);
        part.b = block(product.b, product.transpose_b, term, terms, column, columns);
        part.c = product.c.rows(row, rows).columns(column, columns);
        part.accumulate = product.accumulate || term > 0;
        part.bias = {};
        if (product.bias.data != nullptr && term == 0) part.bias = product.bias.rows(column, columns);
        run(part);
      }
    }
  }
}

}  // namespace sft::ops
