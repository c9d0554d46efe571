// SPDX-License-Identifier: Apache-2.0
// RMSNorm (Zhang & Sennrich 2019). blockDim.x threads have a row, blockDim.y rows are worked on at a time. A thread
// keeps its first vectors of a row in registers from the sum to the result; longer rows are read again for the rest.
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/kernels/partials.hpp"
#include "ops/cuda/warp.cuh"
#include "ops/cuda/weight.cuh"
#include "sft/ops/calls/rms_norm.hpp"
#include "sft/ops/calls/split_norm.hpp"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;
using sft::cuda::shared_memory;

constexpr unsigned max_threads = 512, usual_threads = 256;

__device__ __forceinline__ float inverse_root(float sum_of_squares, std::int64_t size, float epsilon) {
  return 1.0f / sqrtf(sum_of_squares / static_cast<float>(size) + epsilon);
}

/// y = v rstd w for N neighbours of a row.
template <class T, int N>
__device__ __forceinline__ void store_normed(T* y, const float (&v)[N], float rstd, const float (&w)[N]) {
  float out[N];
#pragma unroll
  for (int i = 0; i < N; ++i) out[i] = v[i] * rstd * w[i];
  store(y, out);
}

/// The same where the weight is still to be read.
template <class T, int N>
__device__ __forceinline__ void store_normed(T* y, const float (&v)[N], float rstd, const Weight& weight,
                                             std::int64_t column) {
  float w[N];
  load_weight<T>(w, weight, column);
  store_normed(y, v, rstd, w);
}

struct NoDelta {};

/// x, or x + delta in the precision of T, which is stored in `sum`.
template <class T, class Delta>
struct Summed {
  Rows<T> sum;
  Rows<const T> x;
  Rows<const Delta> delta;
};

/// v += d in the precision of T.
template <class T, int N, class Delta>
__device__ __forceinline__ void add_delta(Packed<T, N>& v, const Packed<Delta, N>& delta) {
  float x[N], d[N];
  v.unpack(x);
  delta.unpack(d);
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] += d[i];
  v.pack(x);
}

template <class T, int N>
__device__ __forceinline__ void add_squares(float& sum, const Packed<T, N>& v) {
  float x[N];
  v.unpack(x);
#pragma unroll
  for (int i = 0; i < N; ++i) sum += x[i] * x[i];
}

/// Without Delta moves 2 T C s bytes, with it 3 T C s and those of delta; rstd, 4 T.
template <class T, class Delta, int N, int held>
__global__ void __launch_bounds__(max_threads, 1)
    forward_kernel(Summed<T, Delta> in, Rows<T> y, float* rstd, Weight weight, std::int64_t num_rows,
                   std::int64_t num_columns, float epsilon) {
  constexpr bool has_delta = !std::is_same_v<Delta, NoDelta>;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const std::int64_t num_vectors = row < num_rows ? num_columns / N : 0, num_held = held * blockDim.x;
  const auto vector_of = [&](int k) { return threadIdx.x + k * static_cast<std::int64_t>(blockDim.x); };
  Packed<T, N> v[held];
  [[maybe_unused]] Packed<std::conditional_t<has_delta, Delta, T>, N> delta[held];
#pragma unroll
  for (int k = 0; k < held; ++k) {
    if (vector_of(k) >= num_vectors) continue;
    v[k].read(in.x.at(row, vector_of(k) * N));
    if constexpr (has_delta) delta[k].read(in.delta.at(row, vector_of(k) * N));
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    if (vector_of(k) >= num_vectors) continue;
    if constexpr (has_delta) {
      add_delta(v[k], delta[k]);
      v[k].write(in.sum.at(row, vector_of(k) * N));
    }
    add_squares(sum, v[k]);
  }
  for (std::int64_t vector = num_held + threadIdx.x; vector < num_vectors; vector += blockDim.x) {
    Packed<T, N> u;
    u.read(in.x.at(row, vector * N));
    if constexpr (has_delta) {
      Packed<Delta, N> d;
      d.read(in.delta.at(row, vector * N));
      add_delta(u, d);
      u.write(in.sum.at(row, vector * N));
    }
    add_squares(sum, u);
  }
  float w[held][N];  // on its way while the block sums
  load_weights<T>(w, weight, threadIdx.x, blockDim.x, num_vectors);
  const float inverse = inverse_root(row_sum(sum, shared_memory<float>()), num_columns, epsilon);
  if (threadIdx.x == 0 && row < num_rows) rstd[row] = inverse;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    if (vector_of(k) >= num_vectors) continue;
    float x[N];
    v[k].unpack(x);
    store_normed(y.at(row, vector_of(k) * N), x, inverse, w[k]);
  }
  for (std::int64_t vector = num_held + threadIdx.x; vector < num_vectors; vector += blockDim.x) {
    float u[N];
    if constexpr (has_delta) {
      load(u, in.sum.at(row, vector * N));  // as this thread stored it; x may be gone
    } else {
      load(u, in.x.at(row, vector * N));
    }
    store_normed(y.at(row, vector * N), u, inverse, weight, vector * N);
  }
}

/// y = x rstd weight. Moves 2 T C s bytes and rstd, 4 T.
template <class T, int N>
struct Apply {
  static constexpr int unroll = 2;
  struct Registers {
    float x[N];
  };
  Rows<T> y;
  Rows<const T> x;
  const float* rstd;
  Weight weight;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.x, x.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    store_normed(y.at(row, column), r.x, rstd[row], weight, column);
  }
};

/// Operands of the backward pass.
template <class T, class Dy>
struct Gradients {
  Rows<T> dx;
  float* partials;  ///< may be null
  Rows<const Dy> dy;
  Rows<const T> x;
  const float* rstd;
  Weight weight;
  Rows<const T> dresidual;  ///< data may be null
  float* dots = nullptr;    ///< if any, the sums of dy n weight go there, and nothing to dx
};

/// What a thread keeps of a row.
template <class T, class Dy, int N, int held>
struct KeptRow {
  /// Where that is so little that there is room for a second one.
  static constexpr bool is_read_ahead = held * N * static_cast<int>(2 * sizeof(T) + sizeof(Dy)) <= 96;
  Packed<T, N> x[held], dresidual[held];
  Packed<Dy, N> dy[held];
  float rstd = 0.0f;

  __device__ __forceinline__ void read(const Gradients<T, Dy>& g, std::int64_t row, int num_vectors) {
    if (num_vectors > 0) rstd = g.rstd[row];
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int vector = static_cast<int>(threadIdx.x + k * blockDim.x);
      if (vector >= num_vectors) continue;
      x[k].read(g.x.at(row, vector * N));
      dy[k].read(g.dy.at(row, vector * N));
      if (g.dresidual.data != nullptr) dresidual[k].read(g.dresidual.at(row, vector * N));
    }
  }
};

/// dweight += dy n; dot += dy n w, with n = x rstd.
template <int N>
__device__ __forceinline__ void add_products(float (&dweight)[N], float& dot, const float (&dy)[N], const float (&x)[N],
                                             float rstd, const float (&w)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float product = dy[i] * (x[i] * rstd);
    dweight[i] += product;
    dot += product * w[i];
  }
}

/// dx = rstd (dy w - n mean) + dresidual.
template <class T, int N>
__device__ __forceinline__ void store_gradient(T* dx, const float (&dy)[N], const float (&x)[N], float rstd, float mean,
                                               const float (&w)[N], const float (&dresidual)[N]) {
  float out[N];
#pragma unroll
  for (int i = 0; i < N; ++i) out[i] = rstd * (dy[i] * w[i] - x[i] * rstd * mean) + dresidual[i];
  store(dx, out);
}

/// Block b takes rows [b rows_per_block, (b + 1) rows_per_block), its lane threadIdx.y every blockDim.y-th of them, and
/// writes the lane's sums of dy n as row b blockDim.y + threadIdx.y of `partials`. Moves T C bytes of dx, x, dresidual
/// (s each) and dy, and rstd, 4 T; of partials 4 C for the rows of a lane, 8 or more where there are as many.
template <class T, class Dy, int N, int held>
__global__ void __launch_bounds__(max_threads)
    backward_kernel(Gradients<T, Dy> g, std::int64_t num_rows, std::int64_t num_columns, std::int64_t rows_per_block) {
  auto* scratch = shared_memory<float>();
  const std::int64_t first = blockIdx.x * rows_per_block,
                     end = first + rows_per_block < num_rows ? first + rows_per_block : num_rows;
  const int thread = static_cast<int>(threadIdx.x), num_threads = static_cast<int>(blockDim.x);
  const int num_held = held * num_threads, all_vectors = static_cast<int>(num_columns / N);
  const bool has_residual = g.dresidual.data != nullptr;
  float* partial = g.partials == nullptr
                       ? nullptr
                       : g.partials + (static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y) * num_columns;
  float dweight[held][N] = {};
  if (partial != nullptr) {
    for (int vector = num_held + thread; vector < all_vectors; vector += num_threads) {
      const float zeros[N] = {};
      store(partial + vector * N, zeros);
    }
  }
  float w[held][N];
  load_weights<T>(w, g.weight, threadIdx.x, blockDim.x, all_vectors);
  using Row = KeptRow<T, Dy, N, held>;
  const auto vectors_of = [&](std::int64_t row) { return row < end ? all_vectors : 0; };
  Row next;
  next.read(g, first + threadIdx.y, vectors_of(first + threadIdx.y));
  // All lanes take the same number of turns, so that the block meets in the sums.
  for (std::int64_t begin = first; begin < end; begin += blockDim.y) {
    const std::int64_t row = begin + threadIdx.y;
    const int num_vectors = vectors_of(row);
    Row kept = next;
    if constexpr (Row::is_read_ahead) next.read(g, row + blockDim.y, vectors_of(row + blockDim.y));
    float dot = 0.0f;
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int vector = static_cast<int>(threadIdx.x + k * blockDim.x);
      if (vector >= num_vectors) continue;
      float xs[N], dys[N];
      kept.x[k].unpack(xs);
      kept.dy[k].unpack(dys);
      add_products(dweight[k], dot, dys, xs, kept.rstd, w[k]);
    }
    for (int vector = num_held + thread; vector < num_vectors; vector += num_threads) {
      float xs[N], dys[N], ws[N], sums[N] = {};
      load(xs, g.x.at(row, vector * N));
      load(dys, g.dy.at(row, vector * N));
      load_weight<T>(ws, g.weight, vector * N);
      if (partial != nullptr) load(sums, partial + vector * N);
      add_products(sums, dot, dys, xs, kept.rstd, ws);
      if (partial != nullptr) store(partial + vector * N, sums);
    }
    const float total = row_sum(dot, scratch), mean = total / static_cast<float>(num_columns);
    if (g.dots != nullptr) {
      if (threadIdx.x == 0 && row < end) g.dots[row] = total;
    } else {
#pragma unroll
      for (int k = 0; k < held; ++k) {
        const int vector = static_cast<int>(threadIdx.x + k * blockDim.x);
        if (vector >= num_vectors) continue;
        float xs[N], dys[N], residual[N] = {};
        kept.x[k].unpack(xs);
        kept.dy[k].unpack(dys);
        if (has_residual) kept.dresidual[k].unpack(residual);
        store_gradient(g.dx.at(row, vector * N), dys, xs, kept.rstd, mean, w[k], residual);
      }
      for (int vector = num_held + thread; vector < num_vectors; vector += num_threads) {
        float xs[N], dys[N], ws[N], residual[N] = {};
        load(xs, g.x.at(row, vector * N));
        load(dys, g.dy.at(row, vector * N));
        load_weight<T>(ws, g.weight, vector * N);
        if (has_residual) load(residual, g.dresidual.at(row, vector * N));
        store_gradient(g.dx.at(row, vector * N), dys, xs, kept.rstd, mean, ws, residual);
      }
    }
    if constexpr (!Row::is_read_ahead) next.read(g, row + blockDim.y, vectors_of(row + blockDim.y));
  }
  if (partial == nullptr) return;
#pragma unroll
  for (int k = 0; k < held; ++k) {
    const int vector = static_cast<int>(threadIdx.x + k * blockDim.x);
    if (vector < all_vectors) store(partial + vector * N, dweight[k]);
  }
}

/// Threads of a row, whole warps, for `num_vectors` vectors of which each keeps `held`; and rows at a time.
dim3 threads_for(std::int64_t num_vectors, int held) {
  const std::int64_t wanted = (num_vectors + held - 1) / held, whole = (wanted + warp_size - 1) / warp_size * warp_size;
  const auto x = static_cast<unsigned>(whole < warp_size ? warp_size : whole > max_threads ? max_threads : whole);
  return dim3(x, x < usual_threads ? usual_threads / x : 1);
}

std::size_t scratch_bytes(dim3 threads) { return threads.x * threads.y / warp_size * sizeof(float); }

/// Vectors that a thread keeps: 64 bytes of bf16, 128 of float32 and fewer in the backward pass, which keeps more.
template <class T, int N>
inline constexpr int held_forward = N == 1 ? 8 : 32 / N;
template <class T, int N>
inline constexpr int held_backward = N == 1 ? 8 : 16 / N;

template <class T, class Delta, int N>
void launch_forward(const char* name, Summed<T, Delta> in, View y, float* rstd, Weight weight, float epsilon,
                    cudaStream_t stream) {
  constexpr int held = held_forward<T, N>;
  const dim3 threads = threads_for(y.columns / N, held);
  launch(name, forward_kernel<T, Delta, N, held>, dim3(static_cast<unsigned>((y.rows + threads.y - 1) / threads.y)),
         threads, scratch_bytes(threads), stream, in, rows_of<T>(y), rstd, weight, y.rows, y.columns, epsilon);
}

/// Blocks of the backward pass: with at least 8 turns each, as long as there are more than enough for a large GPU, and
/// with partial sums of at most 8 MiB.
std::int64_t num_backward_blocks(std::int64_t rows, std::int64_t columns, dim3 threads) {
  constexpr std::int64_t max_blocks = 512, turns = 8, max_floats = std::int64_t{1} << 21;
  const std::int64_t by_rows = (rows + threads.y * turns - 1) / (threads.y * turns),
                     by_size = max_floats / (columns * threads.y);
  const std::int64_t limit = by_size < 1 ? 1 : by_size < max_blocks ? by_size : max_blocks;
  return by_rows < limit ? by_rows : limit;
}

/// As if rows were made of vectors of 8, whatever they are made of: so that their number does not depend on addresses.
dim3 backward_threads(std::int64_t columns) { return threads_for((columns + 7) / 8, 2); }

}  // namespace

template <>
void run(const ops::RmsNormForward& op, const Context& context) {
  const View y = view_of(op.y);
  const ConstView x = view_of(op.x);
  float* const rstd = floats_of(op.rstd);
  const Weight weight = weight_of(op.weight, op.x);
  const cudaStream_t stream = context.stream;
  if (is_empty(x)) return;
  with_type(x.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto run = [&](auto n) {
      constexpr int N = decltype(n)::value;
      launch_forward<T, NoDelta, N>("rms_norm_forward", {{nullptr, 0}, rows_of<const T>(x), {nullptr, 0}}, y, rstd,
                                    weight, op.epsilon, stream);
    };
    constexpr int vectors = vector_size<T>;
    if (has_vectors(x, vectors) && has_vectors(y, vectors) && is_aligned(weight)) {
      run(std::integral_constant<int, vectors>{});
    } else {
      run(std::integral_constant<int, 1>{});
    }
  });
}

template <>
void run(const ops::AddRmsNormForward& op, const Context& context) {
  const View sum = view_of(op.sum), y = view_of(op.y);
  const ConstView x = view_of(op.x), delta = view_of(op.delta);
  float* const rstd = floats_of(op.rstd);
  const Weight weight = weight_of(op.weight, op.x);
  const cudaStream_t stream = context.stream;
  if (is_empty(x)) return;
  with_type(x.is_bf16, [&](auto type) {
    with_type(delta.is_bf16, [&](auto delta_type) {
      using T = typename decltype(type)::type;
      using Delta = typename decltype(delta_type)::type;
      const auto run = [&](auto n) {
        constexpr int N = decltype(n)::value;
        launch_forward<T, Delta, N>("add_rms_norm_forward",
                                    {rows_of<T>(sum), rows_of<const T>(x), rows_of<const Delta>(delta)}, y, rstd,
                                    weight, op.epsilon, stream);
      };
      constexpr int vectors = vector_size<T>;
      if (has_vectors(x, vectors) && has_vectors(delta, vectors) && has_vectors(sum, vectors) &&
          has_vectors(y, vectors) && is_aligned(weight)) {
        run(std::integral_constant<int, vectors>{});
      } else {
        run(std::integral_constant<int, 1>{});
      }
    });
  });
}

template <>
void run(const ops::RmsNormApply& op, const Context& context) {
  const View y = view_of(op.y);
  const ConstView x = view_of(op.x);
  const float* const rstd = floats_of(op.rstd);
  const Weight weight = weight_of(op.weight, op.x);
  const cudaStream_t stream = context.stream;
  if (is_empty(x)) return;
  with_type(x.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    const auto run = [&](auto n) {
      constexpr int N = decltype(n)::value;
      run_elementwise<N>("rms_norm_apply", Apply<T, N>{rows_of<T>(y), rows_of<const T>(x), rstd, weight},
                         x.rows * (x.columns / N), x.columns / N, stream);
    };
    constexpr int vectors = vector_size<T>;
    if (has_vectors(x, vectors) && has_vectors(y, vectors) && is_aligned(weight)) {
      run(std::integral_constant<int, vectors>{});
    } else {
      run(std::integral_constant<int, 1>{});
    }
  });
}

std::int64_t rms_norm_backward_partials(std::int64_t rows, std::int64_t columns) {
  const dim3 threads = backward_threads(columns);
  return num_backward_blocks(rows, columns, threads) * threads.y;
}

namespace {

/// With `dots`, these in place of dx and dresidual.
void launch_backward(const char* name, View dx, float* dots, float* partials, ConstView dy, ConstView x,
                     const float* rstd, Weight weight, ConstView dresidual, cudaStream_t stream) {
  if (is_empty(x)) return;
  with_type(x.is_bf16, [&](auto type) {
    with_type(dy.is_bf16, [&](auto dy_type) {
      using T = typename decltype(type)::type;
      using Dy = typename decltype(dy_type)::type;
      const dim3 threads = backward_threads(x.columns);
      const std::int64_t num_blocks = num_backward_blocks(x.rows, x.columns, threads),
                         rows_per_block = (x.rows + num_blocks - 1) / num_blocks;
      const auto run = [&](auto n) {
        constexpr int N = decltype(n)::value;
        launch(name, backward_kernel<T, Dy, N, held_backward<T, N>>, dim3(static_cast<unsigned>(num_blocks)), threads,
               scratch_bytes(threads), stream,
               Gradients<T, Dy>{rows_of<T>(dx), partials, rows_of<const Dy>(dy), rows_of<const T>(x), rstd, weight,
                                rows_of<const T>(dresidual), dots},
               x.rows, x.columns, rows_per_block);
      };
      constexpr int vectors = vector_size<T>;
      if (has_vectors(x, vectors) && has_vectors(dy, vectors) && (dx.data == nullptr || has_vectors(dx, vectors)) &&
          (dresidual.data == nullptr || has_vectors(dresidual, vectors)) && is_aligned(weight)) {
        run(std::integral_constant<int, vectors>{});
      } else {
        run(std::integral_constant<int, 1>{});
      }
    });
  });
}

}  // namespace

template <>
void run(const ops::RmsNormBackward& op, const Context& context) {
  const ConstView x = view_of(op.x);
  const Partials partials(context, op.dweight, rms_norm_backward_partials(x.rows, x.columns), x.columns);
  launch_backward("rms_norm_backward", view_of(op.dx), nullptr, partials.data(), view_of(op.dy), x, floats_of(op.rstd),
                  weight_of(op.weight, op.x), view_of(op.dresidual), context.stream);
  if (!is_empty(x)) partials.add_up();
}

template <>
void run(const ops::SplitNormDots& op, const Context& context) {
  const ConstView x = view_of(op.x);
  const Partials partials(context, op.dweight, rms_norm_backward_partials(x.rows, x.columns), x.columns);
  launch_backward("split_norm_dots", {}, floats_of(op.dots), partials.data(), view_of(op.dy), x, floats_of(op.rstd),
                  weight_of(op.weight, op.x), {}, context.stream);
  if (!is_empty(x)) partials.add_up();
}

}  // namespace sft::ops::cuda
