// SPDX-License-Identifier: Apache-2.0
// Sums in float64 and always in the same order: of pieces that follow from the shape alone, then of these.
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/launch.cuh"
#include "ops/cuda/random_rounding.cuh"
#include "ops/cuda/read_ahead.cuh"
#include "ops/cuda/vector.cuh"
#include "ops/cuda/warp.cuh"
#include "ops/random_bits.hpp"
#include "ops/views/factored.hpp"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;
using sft::cuda::shared_memory;

constexpr unsigned threads = 256;
constexpr std::size_t sum_scratch_bytes = threads / warp_size * sizeof(double);
/// Device memory that sums work in, whatever the shape: a matrix has at most so many bytes of float64 columns.
constexpr std::size_t factored_scratch_bytes = std::size_t{8} << 20;
constexpr std::int64_t max_partials = static_cast<std::int64_t>(factored_scratch_bytes / sizeof(double));
constexpr std::int64_t max_blocks = 4096;

// Passes over the same matrix take its rows in turn from the first to the last and from the last to the first: what one
// has read last is still in the L2 cache for the next.

/// threadIdx.y is a row of the block, whose threads go over the columns. Moves 4 bytes an element.
__global__ void __launch_bounds__(threads) sum_rows_kernel(SquareSumsView s) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  double sum = 0.0;
  if (row < s.num_rows) {
    const float* x = s.x + row * s.num_columns;
    read_ahead<8>(
        threadIdx.x, s.num_columns, blockDim.x, [&](std::int64_t column) { return x[column]; },
        [&](std::int64_t, float value) { sum += square_of(s, value); });
  }
  sum = row_sum(sum, shared_memory<double>());
  if (row < s.num_rows && threadIdx.x == 0) s.rows[row] += sum;
}

/// Columns of a thread of the column sums, a warp apart: so that many reads are under way.
constexpr int thread_columns = 4, block_columns = thread_columns * static_cast<int>(warp_size);

/// Row b of `partials` (gridDim.y, num_columns) = the sums of row block b; lane l takes rows l, l + 8, ... of it. Moves
/// 4 bytes an element.
__global__ void __launch_bounds__(threads)
    sum_columns_kernel(SquareSumsView s, double* partials, std::int64_t rows_per_block) {
  auto* lanes = shared_memory<double>();  // (blockDim.y, block_columns)
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * block_columns + threadIdx.x;
  const std::int64_t row_block = gridDim.y - 1 - blockIdx.y, begin = row_block * rows_per_block,
                     end = begin + rows_per_block < s.num_rows ? begin + rows_per_block : s.num_rows;
  double sums[thread_columns] = {};
  struct Values {
    float of[thread_columns];
  };
  read_ahead<4>(
      begin + threadIdx.y, end, blockDim.y,
      [&](std::int64_t row) {
        Values x{};
#pragma unroll
        for (int k = 0; k < thread_columns; ++k) {
          const std::int64_t column = first + k * static_cast<int>(warp_size);
          if (column < s.num_columns) x.of[k] = s.x[row * s.num_columns + column];
        }
        return x;
      },
      [&](std::int64_t, const Values& x) {
#pragma unroll
        for (int k = 0; k < thread_columns; ++k) sums[k] += square_of(s, x.of[k]);
      });
#pragma unroll
  for (int k = 0; k < thread_columns; ++k)
    lanes[(threadIdx.y * thread_columns + k) * warp_size + threadIdx.x] = sums[k];
  __syncthreads();
  if (threadIdx.y != 0) return;
#pragma unroll
  for (int k = 0; k < thread_columns; ++k) {
    const std::int64_t column = first + k * static_cast<int>(warp_size);
    if (column >= s.num_columns) continue;
    for (unsigned lane = 1; lane < blockDim.y; ++lane) {
      sums[k] += lanes[(lane * thread_columns + k) * warp_size + threadIdx.x];
    }
    partials[row_block * s.num_columns + column] = sums[k];
  }
}

/// Threads of a block that adds up partial sums of columns: few, so that many multiprocessors have some.
constexpr unsigned column_threads = 32;

/// columns += the rows of partials. Moves 8 bytes a partial.
__global__ void __launch_bounds__(column_threads)
    add_columns_kernel(double* columns, const double* partials, std::int64_t num_columns, std::int64_t num_partials) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * column_threads + threadIdx.x;
  if (column >= num_columns) return;
  double sum = 0.0;
  read_ahead<16>(
      0, num_partials, 1, [&](std::int64_t i) { return partials[i * num_columns + column]; },
      [&](std::int64_t, double partial) { sum += partial; });
  columns[column] += sum;
}

/// One block. Moves 24 bytes a moment.
__global__ void __launch_bounds__(threads) update_factors_kernel(MomentFactorsView step) {
  double sum = 0.0;
  read_ahead<8>(
      threadIdx.x, step.size, threads, [&](std::int64_t i) { return new_moment_of(step, i); },
      [&](std::int64_t i, float moment) {
        step.moment[i] = moment;
        sum += static_cast<double>(moment);
      });
  sum = row_sum(sum, shared_memory<double>());
  const float mean = step.by_mean ? static_cast<float>(sum / static_cast<double>(step.size)) : 1.0f;
  read_ahead<8>(
      threadIdx.x, step.size, threads, [&](std::int64_t i) { return step.moment[i]; },
      [&](std::int64_t i, float moment) { step.factors[i] = 1.0f / sqrtf(moment / mean); });
}

/// partials[block] = the squares of the directions of its rows. Moves 4 bytes an element.
__global__ void __launch_bounds__(threads) direction_squares_kernel(FactoredView step, double* partials) {
  double sum = 0.0;
  for (std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; r < step.num_rows;
       r += static_cast<std::int64_t>(gridDim.x) * blockDim.y) {
    const FactoredRow row = row_of(step, r);
    read_ahead<4>(
        threadIdx.x, step.num_columns, blockDim.x, [&](std::int64_t column) { return direction_of(step, row, column); },
        [&](std::int64_t, float direction) { sum += static_cast<double>(direction * direction); });
  }
  auto* rows = shared_memory<double>() + blockDim.y * (blockDim.x / warp_size);  // behind the scratch of row_sum
  sum = row_sum(sum, shared_memory<double>());
  if (threadIdx.x == 0) rows[threadIdx.y] = sum;
  __syncthreads();
  if (threadIdx.x != 0 || threadIdx.y != 0) return;
  for (unsigned row = 1; row < blockDim.y; ++row) sum += rows[row];
  partials[blockIdx.x] = sum;
}

/// One block: result += the partials. Moves 8 bytes a partial.
__global__ void __launch_bounds__(threads) add_partials_kernel(double* result, const double* partials, int count) {
  double sum = 0.0;
  read_ahead<4>(
      threadIdx.x, count, threads, [&](std::int64_t i) { return partials[i]; },
      [&](std::int64_t, double partial) { sum += partial; });
  sum = row_sum(sum, shared_memory<double>());
  if (threadIdx.x == 0) *result += sum;
}

/// Moves the parameter twice, the gradient, and 2 bytes of the copy: 12 or 14 bytes an element in float32.
template <class Parameter, bool has_copy>
__global__ void __launch_bounds__(threads) update_factored_kernel(FactoredView step) {
  const float rate = rate_of(step, [](double x) { return sqrt(x); });
  for (std::int64_t from_end = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
       from_end < step.num_rows; from_end += static_cast<std::int64_t>(gridDim.x) * blockDim.y) {
    const std::int64_t r = step.num_rows - 1 - from_end;
    const FactoredRow row = row_of(step, r);
    auto* parameters = static_cast<Parameter*>(step.parameters) + r * step.num_columns;
    struct Operands {
      float parameter, direction;
    };
    read_ahead<4>(
        threadIdx.x, step.num_columns, blockDim.x,
        [&](std::int64_t column) {
          return Operands{load(parameters + column), direction_of(step, row, column)};
        },
        [&](std::int64_t column, const Operands& old) {
          float parameter = stepped(step, old.parameter, old.direction, rate);
          if constexpr (sizeof(Parameter) == sizeof(Bf16)) {
            const std::int64_t number = step.first_index + r * step.row_stride + column;
            const std::uint64_t bits = squares(step.key, static_cast<std::uint64_t>(number));
            parameter = rounded_at_random<Parameter>(parameter, bits >> 32);
          }
          store(parameters + column, parameter);
          if constexpr (has_copy) store(static_cast<Bf16*>(step.copy) + r * step.num_columns + column, parameter);
        });
  }
}

/// Threads that go over the columns of a row, a warp or more, and rows of a block beside one another.
dim3 block_of(std::int64_t num_columns) {
  unsigned x = warp_size;
  while (x < num_columns && x < threads) x *= 2;
  return {x, threads / x};
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
dim3 grid_of(std::int64_t blocks) { return {static_cast<unsigned>(blocks)}; }

/// Row blocks of column sums: as many as give a large GPU blocks enough, each of at least 32 rows.
std::int64_t num_row_blocks(const SquareSumsView& sums) {
  const std::int64_t limit = smaller(max_partials / sums.num_columns, 128);
  return smaller(divide_up(sums.num_rows, 32), limit < 1 ? 1 : limit);
}

}  // namespace

template <>
void run(const ops::SumSquaresByDim& op, const Context& context) {
  const SquareSumsView sums = view_of(op);
  const Workspace workspace = context.scratch(factored_scratch_bytes);
  const cudaStream_t stream = context.stream;
  if (sums.num_rows == 0 || sums.num_columns == 0) return;
  if (sums.rows != nullptr) {
    const dim3 block = block_of(sums.num_columns);
    launch("sum_rows", sum_rows_kernel, grid_of(divide_up(sums.num_rows, block.y)), block, sum_scratch_bytes, stream,
           sums);
  }
  if (sums.columns == nullptr) return;
  const std::int64_t num_blocks = num_row_blocks(sums);
  auto* partials = static_cast<double*>(workspace.data);
  const dim3 grid(static_cast<unsigned>(divide_up(sums.num_columns, block_columns)), static_cast<unsigned>(num_blocks));
  launch("sum_columns", sum_columns_kernel, grid, dim3(warp_size, threads / warp_size),
         threads * thread_columns * sizeof(double), stream, sums, partials, divide_up(sums.num_rows, num_blocks));
  launch("add_columns", add_columns_kernel, grid_of(divide_up(sums.num_columns, column_threads)), dim3(column_threads),
         0, stream, sums.columns, partials, sums.num_columns, num_blocks);
}

template <>
void run(const ops::MomentFactors& op, const Context& context) {
  const MomentFactorsView step = view_of(op);
  const cudaStream_t stream = context.stream;
  if (step.size == 0) return;
  launch("update_factors", update_factors_kernel, dim3(1), dim3(threads), sum_scratch_bytes, stream, step);
}

template <>
void run(const ops::AddDirectionSquares& op, const Context& context) {
  const FactoredView step = view_of(op.step);
  const Workspace workspace = context.scratch(factored_scratch_bytes);
  const cudaStream_t stream = context.stream;
  if (step.num_rows == 0 || step.num_columns == 0) return;
  auto* partials = static_cast<double*>(workspace.data);
  const dim3 block = block_of(step.num_columns);
  const std::int64_t num_blocks = smaller(divide_up(step.num_rows, block.y), max_blocks);
  launch("direction_squares", direction_squares_kernel, grid_of(num_blocks), block,
         sum_scratch_bytes + block.y * sizeof(double), stream, step, partials);
  launch("add_partials", add_partials_kernel, dim3(1), dim3(threads), sum_scratch_bytes, stream, step.squares, partials,
         static_cast<int>(num_blocks));
}

template <>
void run(const ops::UpdateFactored& op, const Context& context) {
  const FactoredView step = view_of(op.step);
  const cudaStream_t stream = context.stream;
  if (step.num_rows == 0 || step.num_columns == 0) return;
  const dim3 block = block_of(step.num_columns);
  const dim3 grid = grid_of(smaller(divide_up(step.num_rows, block.y), max_blocks));
  const auto run = [&](void (*kernel)(FactoredView)) {
    launch("update_factored", kernel, grid, block, 0, stream, step);
  };
  if (step.has_bf16_parameters) return run(update_factored_kernel<Bf16, false>);
  if (step.copy != nullptr) return run(update_factored_kernel<float, true>);
  run(update_factored_kernel<float, false>);
}

}  // namespace sft::ops::cuda
