// SPDX-License-Identifier: Apache-2.0
// RMSNorm of rows of which every rank has some columns; see sft/ops/calls/split_norm.hpp. The sums of its backward pass
// are those of rms_norm.cu.
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/warp.cuh"
#include "ops/cuda/weight.cuh"
#include "sft/ops/calls/split_norm.hpp"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;
using sft::cuda::shared_memory;

constexpr unsigned row_threads = 256;

/// A block for each row. Moves T N s bytes and squares, 4 T.
template <class T, int N>
__global__ void __launch_bounds__(row_threads)
    squares_kernel(float* squares, Rows<const T> x, std::int64_t num_columns) {
  const std::int64_t row = blockIdx.x;
  float sum = 0.0f;
  for (std::int64_t vector = threadIdx.x; vector < num_columns / N; vector += blockDim.x) {
    float v[N];
    load(v, x.at(row, vector * N));
#pragma unroll
    for (int i = 0; i < N; ++i) sum += v[i] * v[i];
  }
  const float total = row_sum(sum, shared_memory<float>());
  if (threadIdx.x == 0) squares[row] = total;
}

/// Moves 2 T N s bytes, squares and rstd, 4 T each.
template <class T, int N>
struct Forward {
  static constexpr int unroll = 2;
  struct Registers {
    float x[N];
  };
  Rows<T> y;
  float* rstd;
  Rows<const T> x;
  const float* squares;
  Weight weight;
  float all_columns, epsilon;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.x, x.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    const float inverse = 1.0f / sqrtf(squares[row] / all_columns + epsilon);
    float w[N], out[N];
    load_weight<T>(w, weight, column);
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = r.x[i] * inverse * w[i];
    cuda::store(y.at(row, column), out);
    if (column == 0) rstd[row] = inverse;
  }
};

/// Moves 3 T N s bytes, rstd and dots, 4 T each.
template <class T, int N>
struct Backward {
  static constexpr int unroll = 2;
  struct Registers {
    float dy[N], x[N];
  };
  Rows<T> dx;
  Rows<const T> dy, x;
  const float *rstd, *dots;
  Weight weight;
  float all_columns;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.dy, dy.at(row, column));
    cuda::load(r.x, x.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    const float mean = dots[row] / all_columns, scale = rstd[row];
    float w[N], out[N];
    load_weight<T>(w, weight, column);
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = scale * (r.dy[i] * w[i] - r.x[i] * scale * mean);
    cuda::store(dx.at(row, column), out);
  }
};

/// Calls run(std::integral_constant<int, N>) with vectors where all of `views`, and the weight, are made of them.
template <class T, class Run, class... Views>
void by_weighed_vectors(const Weight& weight, Run run, const Views&... views) {
  constexpr int vectors = vector_size<T>;
  if ((has_vectors(views, vectors) && ...) && is_aligned(weight)) {
    run(std::integral_constant<int, vectors>{});
  } else {
    run(std::integral_constant<int, 1>{});
  }
}

}  // namespace

template <>
void run(const ops::SplitNormSquares& op, const Context& context) {
  float* const squares = floats_of(op.squares);
  const ConstView x = view_of(op.x);
  const cudaStream_t stream = context.stream;
  if (is_empty(x)) return;
  with_type(x.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr int vectors = vector_size<T>;
    launch("split_norm_squares", has_vectors(x, vectors) ? squares_kernel<T, vectors> : squares_kernel<T, 1>,
           dim3(static_cast<unsigned>(x.rows)), dim3(row_threads), row_threads / warp_size * sizeof(float), stream,
           squares, rows_of<const T>(x), x.columns);
  });
}

template <>
void run(const ops::SplitNormForward& op, const Context& context) {
  const View y = view_of(op.y);
  const ConstView x = view_of(op.x);
  float* const rstd = floats_of(op.rstd);
  const float* const squares = floats_of(op.squares);
  const Weight weight = weight_of(op.weight, op.x);
  const cudaStream_t stream = context.stream;
  if (is_empty(x)) return;
  with_type(x.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto run = [&](auto n) {
      constexpr int N = decltype(n)::value;
      run_elementwise<N>("split_norm_forward",
                         Forward<T, N>{rows_of<T>(y), rstd, rows_of<const T>(x), squares, weight,
                                       static_cast<float>(op.all_columns), op.epsilon},
                         x.rows * (x.columns / N), x.columns / N, stream);
    };
    by_weighed_vectors<T>(weight, run, x, y);
  });
}

template <>
void run(const ops::SplitNormBackward& op, const Context& context) {
  const View dx = view_of(op.dx);
  const ConstView dy = view_of(op.dy), x = view_of(op.x);
  const float *const rstd = floats_of(op.rstd), *const dots = floats_of(op.dots);
  const Weight weight = weight_of(op.weight, op.x);
  const cudaStream_t stream = context.stream;
  if (is_empty(x)) return;
  with_type(x.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto run = [&](auto n) {
      constexpr int N = decltype(n)::value;
      run_elementwise<N>("split_norm_backward",
                         Backward<T, N>{rows_of<T>(dx), rows_of<const T>(dy), rows_of<const T>(x), rstd, dots, weight,
                                        static_cast<float>(op.all_columns)},
                         x.rows * (x.columns / N), x.columns / N, stream);
    };
    by_weighed_vectors<T>(weight, run, x, dy, dx);
  });
}

}  // namespace sft::ops::cuda
