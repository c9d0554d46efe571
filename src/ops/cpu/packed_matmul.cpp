// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/packed_matmul.hpp"

#include <omp.h>

#include <algorithm>
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

bool is_vector(const Float32Matmul& product) { return product.m == 1 || product.n == 1; }

}  // namespace

bool has_own_products(Isa isa) { return isa == Isa::avx2; }

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

std::int64_t least_scratch_floats(const Float32Matmul& product, int num_threads) {
  return is_vector(product) ? product.k : num_threads * packed_matmul_floats(least_columns);
}

void run_own_product(const Kernels& kernels, const Float32Matmul& product, Scratch scratch) {
  constexpr std::int64_t line_floats = 16;
  const int num_threads = omp_get_max_threads();
  SFT_ENSURE(scratch.num_floats >= least_scratch_floats(product, num_threads), "matmul: set_workspace first");
  if (is_vector(product)) {
    kernels.vector_matmul(product, scratch);
    return;
  }
  const std::int64_t part_floats = std::min(scratch.num_floats / num_threads / line_floats * line_floats,
                                            packed_matmul_floats(packed_block_columns));
  const ThreadGrid grid = thread_grid(product.m, product.n, num_threads);
#pragma omp parallel for
  for (std::int64_t part = 0; part < grid.row_parts * grid.column_parts; ++part) {
    const Interval rows(product.m, part / grid.column_parts, grid.row_parts);
    const Interval columns(product.n, part % grid.column_parts, grid.column_parts);
    Float32Matmul of_thread = product;
    of_thread.a += rows.begin * product.a_row_stride;
    of_thread.b += columns.begin * product.b_column_stride;
    of_thread.c += rows.begin * product.c_stride + columns.begin;
    if (product.bias != nullptr) of_thread.bias += columns.begin;
    of_thread.m = rows.size;
    of_thread.n = columns.size;
    if (rows.size > 0 && columns.size > 0) {
      kernels.packed_matmul(of_thread, {scratch.data + omp_get_thread_num() * part_floats, part_floats});
    }
  }
}

}  // namespace sft::ops::cpu
