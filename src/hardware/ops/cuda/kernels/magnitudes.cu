// SPDX-License-Identifier: Apache-2.0
// Rows of weights with magnitudes of their own; see sft/ops/calls/magnitudes.hpp. Sums always have the same order.
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/warp.cuh"
#include "sft/ops/calls/magnitudes.hpp"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;
using sft::cuda::shared_memory;

constexpr unsigned threads = 256;

/// Moves the input and the output, which is also read to be added to.
template <class T, class U, int N>
struct ScaleColumns {
  static constexpr int unroll = 2;
  struct Registers {
    float in[N], out[N];
  };
  Rows<T> out;
  Rows<const U> in;
  const float* factors;
  float shift;
  Weight bias;
  bool accumulate;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.in, in.at(row, column));
    if (accumulate) cuda::load(r.out, out.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    float result[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float x = r.in[i];
      if (bias.data != nullptr) {
        x -= bias.is_bf16 ? cuda::load(static_cast<const Bf16*>(bias.data) + column + i)
                          : cuda::load(static_cast<const float*>(bias.data) + column + i);
      }
      x *= factors[column + i] + shift;
      result[i] = accumulate ? r.out[i] + x : x;
    }
    cuda::store(out.at(row, column), result);
  }
};

/// Row b of `partials` (gridDim.y, num_columns) = factors * the sums of row block b, a thread for each column; lane l
/// takes rows l, l + 8, ... of it. Moves a and b.
template <class T>
__global__ void __launch_bounds__(threads)
    column_products_kernel(float* partials, Rows<const T> a, Rows<const T> b, const float* factors,
                           std::int64_t num_rows, std::int64_t num_columns, std::int64_t rows_per_block) {
  auto* lanes = shared_memory<float>();  // (blockDim.y, warp_size)
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * warp_size + threadIdx.x;
  const std::int64_t begin = blockIdx.y * rows_per_block,
                     end = begin + rows_per_block < num_rows ? begin + rows_per_block : num_rows;
  float sum = 0.0f;
  if (column < num_columns) {
#pragma unroll 4
    for (std::int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
      sum += load(a.at(row, column)) * load(b.at(row, column));
    }
  }
  lanes[threadIdx.y * warp_size + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= num_columns) return;
  for (unsigned lane = 1; lane < blockDim.y; ++lane) sum += lanes[lane * warp_size + threadIdx.x];
  partials[blockIdx.y * num_columns + column] = sum * factors[column];
}

/// A warp for each row. Moves a and b.
template <class T, class U>
__global__ void __launch_bounds__(threads)
    row_products_kernel(float* sums, Rows<const T> a, Rows<const U> b, std::int64_t num_rows, std::int64_t num_columns,
                        float factor) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  float sum = 0.0f;
  if (row < num_rows) {
#pragma unroll 4
    for (std::int64_t column = threadIdx.x; column < num_columns; column += warp_size) {
      sum += load(a.at(row, column)) * load(b.at(row, column));
    }
  }
  sum = warp_sum(sum);
  if (row < num_rows && threadIdx.x == 0) sums[row] += factor * sum;
}

/// Moves 14 or 16 bytes a row.
template <class T>
__global__ void __launch_bounds__(threads)
    magnitude_factors_kernel(float* factors, float* inverse_norms, const T* magnitudes, const float* squares,
                             std::int64_t size) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= size) return;
  const float norm = rounded<T>(sqrtf(squares[i])), magnitude = load(magnitudes + i);
  factors[i] = norm == 0.0f ? 0.0f : magnitude / norm;
  inverse_norms[i] = norm == 0.0f ? 0.0f : 1.0f / norm;
}

unsigned divide_up(std::int64_t a, std::int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

/// Calls run(std::integral_constant<int, n>): neighbours that a thread takes.
template <int N, class Run>
void with_vectors(bool is_vectors, Run run) {
  if (is_vectors) {
    run(std::integral_constant<int, N>{});
  } else {
    run(std::integral_constant<int, 1>{});
  }
}

}  // namespace

template <>
void run(const ops::ScaleColumns& op, const Context& context) {
  const View out = view_of(op.out);
  const ConstView in = view_of(op.in);
  const float* const factors = floats_of(op.factors);
  const Weight bias{op.bias.data, op.bias.dtype == DType::bf16};
  const cudaStream_t stream = context.stream;
  if (is_empty(out)) return;
  with_type(out.is_bf16, [&](auto out_type) {
    with_type(in.is_bf16, [&](auto in_type) {
      using T = typename decltype(out_type)::type;
      using U = typename decltype(in_type)::type;
      constexpr int vectors = vector_size<T, U>;
      with_vectors<vectors>(has_vectors(out, vectors) && has_vectors(in, vectors), [&](auto n) {
        constexpr int N = decltype(n)::value;
        const ScaleColumns<T, U, N> scaling{rows_of<T>(out), rows_of<const U>(in), factors, op.shift, bias,
                                            op.accumulate};
        run_elementwise<N>("scale_columns", scaling, out.rows * (out.columns / N), out.columns / N, stream);
      });
    });
  });
}

template <>
void run(const ops::AddColumnProducts& op, const Context& context) {
  const ConstView a = view_of(op.a), b = view_of(op.b);
  float* const sums = floats_of(op.sums);
  const float* const factors = floats_of(op.factors);
  const Workspace workspace = context.scratch(column_sums_bytes(a.rows, a.columns));
  const cudaStream_t stream = context.stream;
  if (is_empty(a)) return;
  const std::int64_t row_bytes = a.columns * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t num_blocks = static_cast<std::int64_t>(column_sums_bytes(a.rows, a.columns)) / row_bytes;
  auto* partials = static_cast<float*>(workspace.data);
  with_type(a.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    launch("column_products", column_products_kernel<T>,
           dim3(divide_up(a.columns, warp_size), static_cast<unsigned>(num_blocks)),
           dim3(warp_size, threads / warp_size), threads * sizeof(float), stream, partials, rows_of<const T>(a),
           rows_of<const T>(b), factors, a.rows, a.columns, (a.rows + num_blocks - 1) / num_blocks);
  });
  add_rows(sums, partials, num_blocks, a.columns, stream);
}

template <>
void run(const ops::AddRowProducts& op, const Context& context) {
  const ConstView a = view_of(op.a), b = view_of(op.b);
  float* const sums = floats_of(op.sums);
  const float factor = op.factor;
  const cudaStream_t stream = context.stream;
  if (is_empty(a)) return;
  constexpr unsigned rows_per_block = threads / warp_size;
  with_type(a.is_bf16, [&](auto a_type) {
    with_type(b.is_bf16, [&](auto b_type) {
      using T = typename decltype(a_type)::type;
      using U = typename decltype(b_type)::type;
      launch("row_products", row_products_kernel<T, U>, dim3(divide_up(a.rows, rows_per_block)),
             dim3(warp_size, rows_per_block), 0, stream, sums, rows_of<const T>(a), rows_of<const U>(b), a.rows,
             a.columns, factor);
    });
  });
}

template <>
void run(const ops::MagnitudeFactors& op, const Context& context) {
  const ConstView magnitudes = flat_view_of(op.magnitudes);
  float *const factors = floats_of(op.factors), *const inverse_norms = floats_of(op.inverse_norms);
  const float* const squares = floats_of(op.squares);
  const cudaStream_t stream = context.stream;
  if (is_empty(magnitudes)) return;
  with_type(magnitudes.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    launch("magnitude_factors", magnitude_factors_kernel<T>, dim3(divide_up(magnitudes.columns, threads)),
           dim3(threads), 0, stream, factors, inverse_norms, static_cast<const T*>(magnitudes.data), squares,
           magnitudes.columns);
  });
}

}  // namespace sft::ops::cuda
