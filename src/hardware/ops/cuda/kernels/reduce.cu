// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/read_ahead.cuh"
#include "ops/cuda/warp.cuh"
#include "sft/ops/calls/elementary.hpp"
#include "sft/ops/calls/matmul.hpp"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;
using sft::cuda::shared_memory;

constexpr unsigned sum_threads = 256;
constexpr std::int64_t max_sum_blocks = static_cast<std::int64_t>(sum_squares_bytes / sizeof(double));
constexpr std::size_t sum_scratch_bytes = sum_threads / warp_size * sizeof(double);

/// partials[block] = the sum of squares of its vectors: float32 in a vector, float64 between them. The last block takes
/// what is left of a vector too. Moves 4 bytes an element. `loaded` of a vector's elements are read at a time, all
/// where x is aligned and 1 where not: the sum is the same.
template <int loaded>
__global__ void __launch_bounds__(sum_threads) sum_squares_kernel(double* partials, const float* x, std::int64_t size) {
  constexpr int N = vector_size<float>;
  const std::int64_t num_vectors = size / N, stride = static_cast<std::int64_t>(gridDim.x) * sum_threads;
  double sum = 0.0;
#pragma unroll 4
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * sum_threads + threadIdx.x; i < num_vectors;
       i += stride) {
    float squares = 0.0f;
#pragma unroll
    for (int j = 0; j < N; j += loaded) {
      float v[loaded];
      load(v, x + i * N + j);
#pragma unroll
      for (int k = 0; k < loaded; ++k) squares += v[k] * v[k];
    }
    sum += static_cast<double>(squares);
  }
  const std::int64_t last = num_vectors * N + threadIdx.x;
  if (blockIdx.x == gridDim.x - 1 && last < size) sum += static_cast<double>(x[last] * x[last]);
  sum = row_sum(sum, shared_memory<double>());
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

/// One block: result += the partials. Moves 8 bytes a partial.
__global__ void __launch_bounds__(sum_threads) sum_partials_kernel(double* result, const double* partials, int count) {
  double sum = 0.0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(sum_threads)) sum += partials[i];
  sum = row_sum(sum, shared_memory<double>());
  if (threadIdx.x == 0) *result += sum;
}

/// Columns and row lanes of a block of column sums.
constexpr unsigned sum_columns = 32, sum_lanes = 8, column_threads = sum_columns * sum_lanes;

/// A block sums up blockIdx.y's rows of N neighbouring columns a thread; lane l takes rows l, l + 8, ... and thread
/// (x, 0) adds up the lanes. Row block b goes to row b of `out`, or is added to it. Moves x and 4 bytes a sum.
template <class T, int N, bool accumulate>
__global__ void __launch_bounds__(column_threads)
    column_sums_kernel(float* out, Rows<const T> x, std::int64_t num_rows, std::int64_t num_columns,
                       std::int64_t rows_per_block) {
  auto* lanes = shared_memory<float>();  // (sum_lanes, sum_columns N)
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * sum_columns + threadIdx.x) * N;
  const std::int64_t begin = blockIdx.y * rows_per_block,
                     end = begin + rows_per_block < num_rows ? begin + rows_per_block : num_rows;
  constexpr int ahead = N == 1 ? 16 : 4;  // of partial sums, which few threads add up, more
  float sums[N] = {};
  if (column < num_columns) {
    read_ahead<ahead>(
        begin + threadIdx.y, end, sum_lanes,
        [&](std::int64_t row) {
          Packed<T, N> packed;
          packed.read(x.at(row, column));
          return packed;
        },
        [&](std::int64_t, const Packed<T, N>& packed) {
          float v[N];
          packed.unpack(v);
#pragma unroll
          for (int i = 0; i < N; ++i) sums[i] += v[i];
        });
  }
#pragma unroll
  for (int i = 0; i < N; ++i) lanes[(threadIdx.y * N + i) * sum_columns + threadIdx.x] = sums[i];
  __syncthreads();
  if (threadIdx.y != 0 || column >= num_columns) return;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    for (unsigned lane = 1; lane < sum_lanes; ++lane) sums[i] += lanes[(lane * N + i) * sum_columns + threadIdx.x];
  }
  float* to = out + blockIdx.y * num_columns + column;
  if (accumulate) {
    float before[N];
    load(before, to);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] = before[i] + sums[i];
  }
  store(to, sums);
}

template <class T, int N, bool accumulate>
void launch_column_sums(float* out, const ConstView& x, std::int64_t num_blocks, std::int64_t rows_per_block,
                        cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((x.columns / N + sum_columns - 1) / sum_columns),
                  static_cast<unsigned>(num_blocks));
  launch("column_sums", column_sums_kernel<T, N, accumulate>, grid, dim3(sum_columns, sum_lanes),
         column_threads * N * sizeof(float), stream, out, rows_of<const T>(x), x.rows, x.columns, rows_per_block);
}

/// Rows of partial sums: as many as give a large GPU blocks enough, each of at least 32 rows and all of at most 8 MiB.
std::int64_t num_row_blocks(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t max_blocks = 128, min_rows = 32, max_floats = std::int64_t{1} << 21;
  const std::int64_t by_rows = (rows + min_rows - 1) / min_rows, by_size = max_floats / (columns > 0 ? columns : 1);
  const std::int64_t limit = by_size < 1 ? 1 : by_size < max_blocks ? by_size : max_blocks;
  return by_rows < limit ? by_rows : limit;
}

}  // namespace

template <>
void run(const ops::SumSquares& op, const Context& context) {
  double* const result = doubles_of(op.result);
  const float* const x = floats_of(op.x);
  const std::int64_t size = op.x.num_elements();
  const Workspace workspace = context.scratch(sum_squares_bytes);
  const cudaStream_t stream = context.stream;
  if (size == 0) return;
  auto* partials = static_cast<double*>(workspace.data);
  const bool is_vectors = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  constexpr std::int64_t elements_per_block = sum_threads * 16;
  const std::int64_t wanted = (size + elements_per_block - 1) / elements_per_block,
                     num_blocks = wanted < max_sum_blocks ? wanted : max_sum_blocks;
  launch("sum_squares", is_vectors ? sum_squares_kernel<4> : sum_squares_kernel<1>,
         dim3(static_cast<unsigned>(num_blocks)), dim3(sum_threads), sum_scratch_bytes, stream, partials, x, size);
  launch("sum_partials", sum_partials_kernel, dim3(1), dim3(sum_threads), sum_scratch_bytes, stream, result, partials,
         static_cast<int>(num_blocks));
}

void add_rows(float* sums, const float* partials, std::int64_t num_rows, std::int64_t columns, cudaStream_t stream) {
  const ConstView x{partials, false, num_rows, columns, columns};
  if (is_empty(x)) return;
  launch_column_sums<float, 1, true>(sums, x, 1, num_rows, stream);
}

std::size_t column_sums_bytes(std::int64_t rows, std::int64_t columns) {
  return num_row_blocks(rows, columns) * columns * sizeof(float);
}

template <>
void run(const ops::BiasBackward& op, const Context& context) {
  float* const sums = floats_of(op.dbias);
  const ConstView x = view_of(op.dy);
  const Workspace workspace = context.scratch(column_sums_bytes(x.rows, x.columns));
  const cudaStream_t stream = context.stream;
  if (is_empty(x)) return;
  const std::int64_t num_blocks = num_row_blocks(x.rows, x.columns),
                     rows_per_block = (x.rows + num_blocks - 1) / num_blocks;
  auto* partials = static_cast<float*>(workspace.data);
  with_type(x.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr int vectors = vector_size<T>;
    if (has_vectors(x, vectors)) {
      launch_column_sums<T, vectors, false>(partials, x, num_blocks, rows_per_block, stream);
    } else {
      launch_column_sums<T, 1, false>(partials, x, num_blocks, rows_per_block, stream);
    }
  });
  add_rows(sums, partials, num_blocks, x.columns, stream);
}

}  // namespace sft::ops::cuda
