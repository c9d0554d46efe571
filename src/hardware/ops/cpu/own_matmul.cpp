// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/own_matmul.hpp"

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <limits>

#include "sft/core/ensure.hpp"

namespace sft::ops::cpu {
namespace {

constexpr std::int64_t least_columns = 64;

/// Part `index` of `count` parts of [0, size), whose borders are multiples of 64.
struct Interval {
  std::int64_t begin, size;
  Interval(std::int64_t size_of_all, std::int64_t index, std::int64_t count) {
    constexpr std::int64_t granularity = 64;
    const std::int64_t whole = (size_of_all + granularity - 1) / granularity;
    const auto border = [&](std::int64_t i) { return std::min(size_of_all, whole * i / count * granularity); };
    begin = border(index);
    size = border(index + 1) - begin;
  }
};

bool is_vector(const MatmulArguments& product) { return product.m == 1 || product.n == 1; }

/// The element at a place of a tensor of bf16 or float32 numbers.
const void* at(const void* data, std::int64_t offset, bool is_bf16) {
  return static_cast<const std::byte*>(data) + offset * static_cast<std::int64_t>(is_bf16 ? 2 : sizeof(float));
}

/// Of the product, what a thread makes of c.
MatmulArguments part_of(const MatmulArguments& product, const Interval& rows, const Interval& columns) {
  MatmulArguments part = product;
  const bool is_bf16 = product.has_bf16_operands;
  part.a = at(product.a, rows.begin * product.a_row_stride, is_bf16);
  part.b = at(product.b, columns.begin * product.b_column_stride, is_bf16);
  part.c = const_cast<void*>(at(product.c, rows.begin * product.c_stride + columns.begin, product.has_bf16_result));
  if (product.bias != nullptr) part.bias = at(product.bias, columns.begin, product.has_bf16_bias);
  part.m = rows.size;
  part.n = columns.size;
  return part;
}

}  // namespace

bool has_own_products(Isa isa, DType dtype) {
  if (dtype == DType::float32) return isa == Isa::avx2;
  return isa >= Isa::avx2 && (isa == Isa::amx || !has_fast_bf16_products(isa));
}

ThreadGrid thread_grid(std::int64_t m, std::int64_t n, int num_threads) {
  ThreadGrid best{1, num_threads};
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t row_parts = 1; row_parts <= num_threads; ++row_parts) {
    const ThreadGrid grid{row_parts, num_threads / row_parts};
    std::int64_t rows = 0, columns = 0;
    for (std::int64_t i = 0; i < grid.row_parts; ++i) rows = std::max(rows, Interval(m, i, grid.row_parts).size);
    for (std::int64_t i = 0; i < grid.column_parts; ++i) {
      columns = std::max(columns, Interval(n, i, grid.column_parts).size);
    }
    // For each term of the sums: multiplications, and copies, of which one takes as long as some 16 of them.
    const std::int64_t work = rows * columns + 16 * (rows + columns);
    if (work < least) {
      least = work;
      best = grid;
    }
  }
  return best;
}

std::int64_t least_scratch_floats(const MatmulArguments& product, int num_threads) {
  return is_vector(product) ? product.k : num_threads * packed_matmul_floats(least_columns, product.has_bf16_result);
}

void run_own_product(const Kernels& kernels, const MatmulArguments& product, Scratch scratch) {
  constexpr std::int64_t line_floats = 16;
  const int num_threads = omp_get_max_threads();
  SFT_ENSURE(scratch.num_floats >= least_scratch_floats(product, num_threads), "matmul: set_workspace first");
  if (is_vector(product)) {
    kernels.vector_matmul(product, scratch);
    return;
  }
  const std::int64_t part_floats = std::min(scratch.num_floats / num_threads / line_floats * line_floats,
                                            packed_matmul_floats(packed_block_columns, product.has_bf16_result));
  const ThreadGrid grid = thread_grid(product.m, product.n, num_threads);
#pragma omp parallel for
  for (std::int64_t part = 0; part < grid.row_parts * grid.column_parts; ++part) {
    const Interval rows(product.m, part / grid.column_parts, grid.row_parts);
    const Interval columns(product.n, part % grid.column_parts, grid.column_parts);
    if (rows.size > 0 && columns.size > 0) {
      kernels.packed_matmul(part_of(product, rows, columns),
                            {scratch.data + omp_get_thread_num() * part_floats, part_floats});
    }
  }
}

}  // namespace sft::ops::cpu
