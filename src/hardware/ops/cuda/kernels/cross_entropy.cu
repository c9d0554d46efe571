// SPDX-License-Identifier: Apache-2.0
// Vocabulary-parallel cross-entropy: each pass reads a row of logits once, the last two rewrite it.
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/warp.cuh"
#include "ops/views/cross_entropy.hpp"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;
using sft::cuda::shared_memory;

constexpr unsigned row_threads = 512;
constexpr std::size_t scratch_bytes = row_threads / warp_size * sizeof(double);

/// Column of the row's target in this part of the vocabulary, or -1.
__device__ __forceinline__ std::int64_t target_column(const CrossEntropyView& chunk, std::int64_t row) {
  const std::int64_t column = chunk.targets[row] - chunk.vocab_begin;
  return column >= 0 && column < chunk.columns ? column : -1;
}

/// A block for each row. Moves 4 T V bytes.
template <int N>
__global__ void __launch_bounds__(row_threads) max_kernel(CrossEntropyView chunk) {
  auto* scratch = shared_memory<float>();
  const std::int64_t row = blockIdx.x, num_vectors = chunk.columns / N;
  const float* logits = chunk.logits + row * chunk.columns;
  float largest = -INFINITY;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < num_vectors; i += row_threads) {
    float x[N];
    load(x, logits + i * N);
#pragma unroll
    for (int j = 0; j < N; ++j) largest = fmaxf(largest, x[j]);
  }
  largest = row_max(largest, scratch);
  if (threadIdx.x == 0) chunk.max[row] = largest;
}

/// A block for each row; float32 sums in a thread, float64 sums over threads. Moves 8 T V bytes. With `smooths` it adds
/// up the logits, too.
template <int N, bool smooths>
__global__ void __launch_bounds__(row_threads) partials_kernel(CrossEntropyView chunk) {
  auto* scratch = shared_memory<double>();
  const std::int64_t row = blockIdx.x, num_vectors = chunk.columns / N;
  float* logits = chunk.logits + row * chunk.columns;
  const float largest = chunk.max[row];
  if (threadIdx.x == 0) {
    const std::int64_t target = target_column(chunk, row);
    chunk.target_logit[row] = target < 0 ? 0.0f : logits[target];
  }
  __syncthreads();  // the target's logit is read before it is overwritten
  float sums[N] = {}, sums_with_logit[N] = {};
  [[maybe_unused]] float sums_of_logits[N] = {};
#pragma unroll 2
  for (std::int64_t i = threadIdx.x; i < num_vectors; i += row_threads) {
    float x[N];
    load(x, logits + i * N);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float shifted = x[j] - largest, e = expf(shifted);
      x[j] = e;
      sums[j] += e;
      sums_with_logit[j] += e > 0.0f ? e * shifted : e;  // 0 * -inf is 0 here
      if constexpr (smooths) sums_of_logits[j] += shifted;
    }
    store(logits + i * N, x);
  }
  double sum = 0.0, sum_with_logit = 0.0;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    sum += static_cast<double>(sums[j]);
    sum_with_logit += static_cast<double>(sums_with_logit[j]);
  }
  sum = row_sum(sum, scratch);
  sum_with_logit = row_sum(sum_with_logit, scratch);
  if (threadIdx.x == 0) {
    chunk.sum_exp[row] = static_cast<float>(sum);
    chunk.sum_exp_logit[row] = static_cast<float>(sum_with_logit);
  }
  if constexpr (smooths) {
    double sum_of_logits = 0.0;
#pragma unroll
    for (int j = 0; j < N; ++j) sum_of_logits += static_cast<double>(sums_of_logits[j]);
    sum_of_logits = row_sum(sum_of_logits, scratch);
    if (threadIdx.x == 0) chunk.sum_logit[row] = static_cast<float>(sum_of_logits);
  }
}

/// One block. Moves 20 T bytes.
__global__ void __launch_bounds__(row_threads) metrics_kernel(CrossEntropyView chunk, double* metrics) {
  auto* scratch = shared_memory<double>();
  double sums[4] = {};
  for (std::int64_t row = threadIdx.x; row < chunk.rows; row += row_threads) {
    const double weight = chunk.weights[row];
    if (!(weight > 0.0)) continue;
    const double sum_exp = chunk.sum_exp[row], largest = chunk.max[row], logit = chunk.target_logit[row];
    const double log_sum = log(sum_exp);
    const double mean_nll = chunk.sum_logit == nullptr ? 0.0 : log_sum - chunk.sum_logit[row] * chunk.inverse_vocab;
    const double nll = log_sum + (largest - logit);
    sums[0] += weight * (chunk.dft ? nll * exp(-nll) : (1.0 - chunk.smoothing) * nll + chunk.smoothing * mean_nll);
    sums[1] += 1.0;
    sums[2] += logit >= largest ? 1.0 : 0.0;
    sums[3] += log_sum - chunk.sum_exp_logit[row] / sum_exp;
  }
  for (int i = 0; i < 4; ++i) {
    const double total = row_sum(sums[i], scratch);
    if (threadIdx.x == 0) metrics[i] += total;
  }
}

/// Moves 8 bytes an element.
template <int N>
struct SoftCap {
  static constexpr int unroll = 4;
  struct Registers {
    float x[N];
  };
  Rows<float> x;
  float cap;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.x, x.at(row, column));
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    float out[N];
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = cap * tanhf(r.x[i] / cap);
    cuda::store(x.at(row, column), out);
  }
};

/// The derivative of a capped logit, of which e = exp(logit - max) is left: a logit is within the cap, so e is not 0.
__device__ __forceinline__ float cap_slope(float e, float max, float cap) {
  const float share = (max + logf(e)) / cap;
  return 1.0f - share * share;
}

/// dlogits = gradient_scale weight (e / sum_exp - onehot), or as ops::TokenLoss says. Moves (4 + s) T V bytes.
template <class T, int N>
struct Gradient {
  static constexpr int unroll = 2;
  struct Registers {
    float e[N], weight, sum_exp;
    std::int64_t target;
  };
  CrossEntropyView chunk;
  Rows<T> dlogits;
  Rows<const float> exps;
  double gradient_scale;
  float share_of_target, share_of_all;  ///< of a token's weight

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.e, exps.at(row, column));
    r.weight = chunk.weights[row];
    r.sum_exp = chunk.sum_exp[row];
    r.target = target_column(chunk, row);
  }
  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    float out[N];
    if (r.weight == 0.0f) {  // exact zeros, whatever the logits
#pragma unroll
      for (float& x : out) x = 0.0f;
    } else {
      auto scaled = static_cast<float>(gradient_scale * static_cast<double>(r.weight));
      if (chunk.dft) scaled *= expf(chunk.target_logit[row] - chunk.max[row]) / r.sum_exp;
      const float factor = scaled / r.sum_exp;
      const std::int64_t target = r.target - column;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        out[i] = r.e[i] * factor - (i == target ? scaled * share_of_target : 0.0f) - scaled * share_of_all;
        if (chunk.logit_cap != 0.0f) out[i] *= cap_slope(r.e[i], chunk.max[row], chunk.logit_cap);
      }
    }
    cuda::store(dlogits.at(row, column), out);
  }
};

View logits_of(const CrossEntropyView& chunk) {
  return {chunk.logits, false, chunk.rows, chunk.columns, chunk.columns};
}

void add_metrics(const CrossEntropyView& chunk, double* metrics, cudaStream_t stream) {
  if (chunk.rows == 0) return;
  launch("cross_entropy_metrics", metrics_kernel, dim3(1), dim3(row_threads), scratch_bytes, stream, chunk, metrics);
}

void write_gradient(const CrossEntropyView& chunk, View dlogits, double gradient_scale, cudaStream_t stream) {
  const View exps = logits_of(chunk);
  if (is_empty(exps)) return;
  with_type(dlogits.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    constexpr int vectors = vector_size<T, float>;
    const auto run = [&](auto n) {
      constexpr int N = decltype(n)::value;
      run_elementwise<N>("cross_entropy_gradient",
                         Gradient<T, N>{chunk, rows_of<T>(dlogits), rows_of<const float>(exps), gradient_scale,
                                        static_cast<float>(1.0 - chunk.smoothing),
                                        static_cast<float>(chunk.smoothing * chunk.inverse_vocab)},
                         chunk.rows * (chunk.columns / N), chunk.columns / N, stream);
    };
    if (has_vectors(exps, vectors) && has_vectors(dlogits, vectors)) {
      run(std::integral_constant<int, vectors>{});
    } else {
      run(std::integral_constant<int, 1>{});
    }
  });
}

}  // namespace

template <>
void run(const ops::SoftCap& op, const Context& context) {
  ensure(op.x.dtype == DType::float32, "soft_cap: float32 expected");
  const View x = flat_view_of(op.x);
  const cudaStream_t stream = context.stream;
  by_vectors<4>(std::tuple(x), true, [&](auto n, std::int64_t num_vectors, std::int64_t per_row, const View& part) {
    constexpr int N = decltype(n)::value;
    run_elementwise<N>("soft_cap", SoftCap<N>{rows_of<float>(part), op.cap}, num_vectors, per_row, stream);
  });
}

template <>
void run(const ops::CrossEntropyMax& op, const Context& context) {
  const CrossEntropyView chunk = view_of(op.chunk);
  const cudaStream_t stream = context.stream;
  if (chunk.rows == 0) return;
  launch("cross_entropy_max", has_vectors(logits_of(chunk), 4) ? max_kernel<4> : max_kernel<1>,
         dim3(static_cast<unsigned>(chunk.rows)), dim3(row_threads), scratch_bytes, stream, chunk);
}

template <>
void run(const ops::CrossEntropyPartials& op, const Context& context) {
  const CrossEntropyView chunk = view_of(op.chunk);
  const cudaStream_t stream = context.stream;
  if (chunk.rows == 0) return;
  const bool in_vectors = has_vectors(logits_of(chunk), 4);
  launch("cross_entropy_partials",
         chunk.sum_logit != nullptr ? (in_vectors ? partials_kernel<4, true> : partials_kernel<1, true>)
                                    : (in_vectors ? partials_kernel<4, false> : partials_kernel<1, false>),
         dim3(static_cast<unsigned>(chunk.rows)), dim3(row_threads), scratch_bytes, stream, chunk);
}

template <>
void run(const ops::CrossEntropyFinish& op, const Context& context) {
  const CrossEntropyView chunk = view_of(op.chunk);
  add_metrics(chunk, doubles_of(op.metrics), context.stream);
  if (op.dlogits.data != nullptr) write_gradient(chunk, view_of(op.dlogits), op.gradient_scale, context.stream);
}

}  // namespace sft::ops::cuda
