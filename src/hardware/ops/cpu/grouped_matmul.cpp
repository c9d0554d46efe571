// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/grouped_matmul.hpp"

#include <omp.h>

#include <algorithm>
#include <exception>

#include "ops/cpu/row_pieces.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops::cpu {

namespace {

std::int64_t multiplications_of(const Matmul& product) {
  return product.c.num_elements() * product.a.shape[product.transpose_a ? 0 : 1];
}

/// Whether threads that take whole products have about the same to do, and none of them is worth many threads.
bool runs_side_by_side(const std::vector<Matmul>& products, int num_threads) {
  std::int64_t total = 0, largest = 0;
  for (const Matmul& product : products) {
    total += multiplications_of(product);
    largest = std::max(largest, multiplications_of(product));
  }
  constexpr std::int64_t least_share = 4;  // products of the largest size that a thread's part comes to
  return num_threads > 1 && total >= least_share * num_threads * largest;
}

/// The part of `workspace` for one of several threads, which begins on a line.
Tensor part_of(const Tensor& workspace, int thread, std::size_t part_bytes) {
  return {static_cast<std::byte*>(workspace.data) + thread * part_bytes,
          DType::float32,
          {static_cast<std::int64_t>(part_bytes / sizeof(float))}};
}

/// The terms of the rows from `begin` on, of a product whose rows are those of an expert.
Matmul piece_of(const Matmul& product, std::int64_t begin, std::int64_t num_rows) {
  Matmul piece = product;
  piece.a = product.a.rows(begin, num_rows);
  if (product.transpose_a) {  // a sum over the rows
    piece.b = product.b.rows(begin, num_rows);
    piece.accumulate = product.accumulate || begin > 0;
  } else {
    piece.c = product.c.rows(begin, num_rows);
  }
  return piece;
}

void run_in_pieces(MatmulEngine& engine, const Matmul& product, const Tensor& workspace) {
  if (MatmulEngine::is_small(product, workspace.size_bytes())) return engine.run(product, workspace);
  const std::int64_t num_rows = product.a.shape[0];
  for (std::int64_t begin = 0; begin < num_rows;) {
    const std::int64_t rows = piece_rows(num_rows - begin);
    engine.run(piece_of(product, begin, rows), workspace);
    begin += rows;
  }
}

}  // namespace

void GroupedMatmulEngine::run(const std::vector<Matmul>& products, MatmulEngine& all_threads, Tensor workspace) {
  std::vector<const Matmul*> waiting;
  for (const Matmul& product : products) {
    if (!product.c.empty() && !(product.accumulate && product.a.empty())) waiting.push_back(&product);
  }
  constexpr std::size_t line_bytes = 64;
  const int num_threads = omp_get_max_threads();
  const std::size_t part_bytes = workspace.size_bytes() / num_threads / line_bytes * line_bytes;
  if (!runs_side_by_side(products, num_threads) || part_bytes < matmul_workspace_bytes(1)) {
    for (const Matmul* product : waiting) run_in_pieces(all_threads, *product, workspace);
    return;
  }
  while (std::ssize(of_thread_) < num_threads) {
    of_thread_.push_back(std::make_unique<MatmulEngine>(isa_, max_kept_of_thread(num_threads)));
  }
  // The largest first, so that no thread is left with one of them at the end.
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const Matmul* a, const Matmul* b) { return multiplications_of(*a) > multiplications_of(*b); });
  std::exception_ptr error;
#pragma omp parallel num_threads(num_threads)
  {
    const int thread = omp_get_thread_num();
    omp_set_num_threads(1);  // of what this thread calls
#pragma omp for schedule(dynamic, 1)
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      try {
        run_in_pieces(*of_thread_[thread], *waiting[i], part_of(workspace, thread, part_bytes));
      } catch (...) {
#pragma omp critical
        error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace sft::ops::cpu
