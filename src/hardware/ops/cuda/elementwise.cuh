// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels in which every element is computed on its own: one kernel that walks over matrices, and the choice of how
// many neighbours a thread takes. An Op says what happens to N neighbours:
//
//   static constexpr int unroll;                         vectors a thread has under way at a time
//   struct Registers;                                    what it keeps of one
//   void load(Registers&, row, column) const;            reads N elements from `column` on
//   void store(const Registers&, row, column) const;     computes and writes them
//
// A thread loads all its vectors before it stores one. An output may be an input.

#include <cstdint>
#include <tuple>
#include <type_traits>

#include "ops/cuda/kernels/view.hpp"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/vector.cuh"

namespace sft::ops::cuda {

/// The rows of a View, typed.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;

  __device__ __forceinline__ T* at(std::int64_t row, std::int64_t column) const { return data + row * stride + column; }
};

template <class T, class Memory>
Rows<T> rows_of(const BasicView<Memory>& view) {
  return {static_cast<T*>(view.data), view.stride};
}

/// The vectors of a matrix: `num_vectors` of them, `per_row` in a row; the last row may have fewer.
struct Cover {
  std::int64_t num_vectors, per_row;
  unsigned num_column_blocks;  ///< blocks side by side
};

inline constexpr unsigned elementwise_threads = 256;

/// A block covers blockDim.x vectors of each of blockDim.y * Op::unroll rows.
template <class Op, int N>
__global__ void __launch_bounds__(elementwise_threads) elementwise_kernel(Op op, Cover cover) {
  const std::int64_t block_row = blockIdx.x / cover.num_column_blocks;
  const unsigned block_column = blockIdx.x % cover.num_column_blocks;
  const std::int64_t vector = static_cast<std::int64_t>(block_column) * blockDim.x + threadIdx.x;
  if (vector >= cover.per_row) return;
  const std::int64_t first_row = block_row * blockDim.y * Op::unroll + threadIdx.y;
  typename Op::Registers registers[Op::unroll];
#pragma unroll
  for (int i = 0; i < Op::unroll; ++i) {
    const std::int64_t row = first_row + i * static_cast<std::int64_t>(blockDim.y);
    if (row * cover.per_row + vector < cover.num_vectors) op.load(registers[i], row, vector * N);
  }
#pragma unroll
  for (int i = 0; i < Op::unroll; ++i) {
    const std::int64_t row = first_row + i * static_cast<std::int64_t>(blockDim.y);
    if (row * cover.per_row + vector < cover.num_vectors) op.store(registers[i], row, vector * N);
  }
}

/// Threads side by side in a row of `per_row` vectors, a power of two: as many as a block has or the row takes, but
/// fewer, down to a warp, where so many would leave more than a sixteenth of them idle at the row's end.
inline unsigned threads_of_row(std::int64_t per_row) {
  constexpr unsigned warp = 32;
  const auto covered = [&](unsigned x) { return (per_row + x - 1) / x * x; };
  unsigned widest = 1;
  while (widest < per_row && widest < elementwise_threads) widest *= 2;
  unsigned best = widest;
  for (unsigned x = widest / 2; x >= warp && 16 * covered(best) > 17 * per_row; x /= 2) {
    if (covered(x) < covered(best)) best = x;
  }
  return best;
}

/// Runs `op` on `num_vectors` vectors of N elements, `per_row` to a row.
template <int N, class Op>
void run_elementwise(const char* name, const Op& op, std::int64_t num_vectors, std::int64_t per_row,
                     cudaStream_t stream) {
  if (num_vectors == 0) return;
  const unsigned threads_x = threads_of_row(per_row), threads_y = elementwise_threads / threads_x;
  const std::int64_t num_rows = (num_vectors + per_row - 1) / per_row, rows_per_block = threads_y * Op::unroll;
  const std::int64_t num_column_blocks = (per_row + threads_x - 1) / threads_x;
  const std::int64_t num_blocks = (num_rows + rows_per_block - 1) / rows_per_block * num_column_blocks;
  sft::cuda::launch(name, elementwise_kernel<Op, N>, dim3(static_cast<unsigned>(num_blocks)),
                    dim3(threads_x, threads_y), 0, stream, op,
                    Cover{num_vectors, per_row, static_cast<unsigned>(num_column_blocks)});
}

/// Whether the rows of `view` begin where vectors of n elements may: at a multiple of 16 bytes, or of all n where these
/// are fewer. A single row may end within a vector.
template <class Memory>
bool is_aligned(const BasicView<Memory>& view, int n) {
  const std::int64_t num_bytes = n * (view.is_bf16 ? 2 : 4), alignment = num_bytes < 16 ? num_bytes : 16;
  return reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(alignment) == 0 &&
         (view.rows <= 1 || (view.columns % n == 0 && view.stride % n == 0));
}

/// Whether every row is made of whole vectors of n elements.
template <class Memory>
bool has_vectors(const BasicView<Memory>& view, int n) {
  return view.columns % n == 0 && is_aligned(view, n);
}

/// Columns [begin, begin + count) of every row.
template <class Memory>
BasicView<Memory> columns_of(const BasicView<Memory>& view, std::int64_t begin, std::int64_t count) {
  using Byte = std::conditional_t<std::is_const_v<Memory>, const char, char>;
  return {static_cast<Byte*>(view.data) + begin * (view.is_bf16 ? 2 : 4), view.is_bf16, view.rows, count, view.stride};
}

/// One long row as rows that give every thread of a block a vector; the last is shorter.
template <class Memory>
BasicView<Memory> folded(const BasicView<Memory>& row) {
  constexpr std::int64_t columns = 2048;
  if (row.columns <= columns) return row;
  return {row.data, row.is_bf16, (row.columns + columns - 1) / columns, columns, columns};
}

/// Calls run(std::integral_constant<int, n>, number of vectors, vectors per row, a part of each of `views`) for parts
/// that together are all elements of `views`, matrices of equal rows and columns: with n = N where they are aligned,
/// else and for the rest of a long row with n = 1.
template <int N, class... Views, class Run>
void by_vectors(const std::tuple<Views...>& views, bool may_be_vectors, Run run) {
  const auto& first = std::get<0>(views);
  if (is_empty(first)) return;
  const auto run_on = [&](auto n, std::int64_t num_vectors, const std::tuple<Views...>& parts) {
    const std::int64_t per_row = std::get<0>(parts).columns / decltype(n)::value;
    std::apply([&](const auto&... part) { run(n, num_vectors, per_row, part...); }, parts);
  };
  const bool is_vectors =
      may_be_vectors && std::apply([](const auto&... view) { return (is_aligned(view, N) && ...); }, views);
  if (first.rows > 1) {
    if (is_vectors) {
      run_on(std::integral_constant<int, N>{}, first.rows * (first.columns / N), views);
    } else {
      run_on(std::integral_constant<int, 1>{}, first.rows * first.columns, views);
    }
    return;
  }
  const std::int64_t num_aligned = is_vectors ? first.columns / N * N : 0, rest = first.columns - num_aligned;
  const auto columns = [&](std::int64_t begin, std::int64_t count) {
    return std::apply([&](const auto&... view) { return std::tuple(folded(columns_of(view, begin, count))...); },
                      views);
  };
  if (num_aligned > 0) run_on(std::integral_constant<int, N>{}, num_aligned / N, columns(0, num_aligned));
  if (rest > 0) run_on(std::integral_constant<int, 1>{}, rest, columns(num_aligned, rest));
}

}  // namespace sft::ops::cuda
