// SPDX-License-Identifier: Apache-2.0
// Routers of experts: a warp has a token, and lane i the experts i, i + 32, ...
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/launch.cuh"
#include "ops/cuda/warp.cuh"
#include "ops/views/router.hpp"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;
using sft::cuda::shared_memory;

constexpr unsigned router_threads = 256, router_warps = router_threads / warp_size;
constexpr int warp_lanes = static_cast<int>(warp_size);

__device__ __forceinline__ unsigned lane_of_thread() { return threadIdx.x % warp_size; }
__device__ __forceinline__ std::int64_t token_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * router_warps + threadIdx.x / warp_size;
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/// What is not a number counts as the least.
__device__ __forceinline__ float comparable(float x) {
  return x == x ? x : __int_as_float(static_cast<int>(0xff800000u));  // -infinity
}

/// A number and its index; -1: none.
struct Best {
  float value;
  int index;

  __device__ __forceinline__ void take(float other, int other_index) {
    if (other_index < 0) return;
    if (index < 0 || other > value || (other == value && other_index < index)) {
      value = other;
      index = other_index;
    }
  }
  /// That of all lanes.
  __device__ __forceinline__ void reduce() {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      const float other = __shfl_xor_sync(all_lanes, value, distance);
      const int other_index = __shfl_xor_sync(all_lanes, index, distance);
      take(other, other_index);
    }
  }
};

/// The groups whose experts may be chosen, one bit each. `scores`, shared memory, holds those of the token.
__device__ __forceinline__ unsigned chosen_groups(const RouterView& router, const float* scores) {
  const int lane = static_cast<int>(lane_of_thread()), size = static_cast<int>(router.num_experts / router.num_groups);
  const bool is_group = lane < static_cast<int>(router.num_groups);
  float sum = 0.0f;
  if (is_group) {
    const float* group = scores + lane * size;
    float first = group[0] > group[1] ? group[0] : group[1], second = group[0] > group[1] ? group[1] : group[0];
    for (int i = 2; i < size; ++i) {
      const float lower = group[i] > first ? first : group[i];
      first = group[i] > first ? group[i] : first;
      second = lower > second ? lower : second;
    }
    sum = comparable(first + second);
  }
  unsigned chosen = 0;
  for (std::int64_t i = 0; i < router.chosen_groups; ++i) {
    Best best{sum, is_group && (chosen >> lane & 1u) == 0 ? lane : -1};
    best.reduce();
    chosen |= 1u << best.index;
  }
  return chosen;
}

/// The maximum of the logits of a token, and the sum of the exponentials of all less it.
struct Softmax {
  float largest, total;

  __device__ __forceinline__ Softmax(const float* logits, std::int64_t num_experts) : largest(logits[0]), total(0.0f) {
    for (std::int64_t e = lane_of_thread(); e < num_experts; e += warp_lanes) largest = fmaxf(largest, logits[e]);
    largest = warp_max(largest);
    for (std::int64_t e = lane_of_thread(); e < num_experts; e += warp_lanes) total += expf(logits[e] - largest);
    total = warp_sum(total);
  }
  __device__ __forceinline__ float of(float logit) const { return expf(logit - largest) / total; }
};

/// In lane j choice j: the score of which its weight is made, and what scores are divided by.
struct Chosen {
  float score, divisor;

  __device__ __forceinline__ Chosen(const RouterView& router, const float* logits, int expert) {
    const bool is_choice = expert >= 0;
    const float logit = is_choice ? logits[expert] : 0.0f, first = __shfl_sync(all_lanes, logit, 0);
    divisor = 1.0f;
    if (router.is_sigmoid) {
      score = is_choice ? sigmoid(logit) : 0.0f;
      const float sum = warp_sum(score);
      if (router.normalizes) divisor = sum + 1e-20f;
    } else if (router.normalizes) {
      score = is_choice ? expf(logit - first) : 0.0f;
      divisor = warp_sum(score);
    } else {
      const Softmax all(logits, router.num_experts);
      score = is_choice ? expf(logit - all.largest) : 0.0f;
      divisor = all.total;
    }
  }
};

/// Moves 4 T E bytes and 8 for each choice.
__global__ void __launch_bounds__(router_threads)
    forward_kernel(RouterView router, std::int32_t* experts, float* weights) {
  const std::int64_t token = token_of_warp(), num_choices = router.num_choices;
  if (token >= router.num_tokens) return;
  const int lane = static_cast<int>(lane_of_thread()), num_experts = static_cast<int>(router.num_experts);
  const float* logits = router.logits + token * num_experts;
  float* scores = shared_memory<float>() + threadIdx.x / warp_size * static_cast<unsigned>(num_experts);
  for (int e = lane; e < num_experts; e += warp_lanes) {
    float score = router.is_sigmoid ? sigmoid(logits[e]) : logits[e];
    if (router.correction != nullptr) score += router.correction[e];
    scores[e] = comparable(score);
  }
  unsigned groups = all_lanes;
  int group_size = num_experts;
  if (router.num_groups > 1) {
    __syncwarp();
    group_size = num_experts / static_cast<int>(router.num_groups);
    groups = chosen_groups(router, scores);
  }
  unsigned taken = 0;  // of this lane's experts
  int mine = -1;       // the expert of this lane's choice
  for (int j = 0; j < static_cast<int>(num_choices); ++j) {
    Best best{0.0f, -1};
    for (int e = lane, i = 0; e < num_experts; e += warp_lanes, ++i) {
      if ((taken >> i & 1u) == 0 && (groups >> (e / group_size) & 1u) != 0) best.take(scores[e], e);
    }
    best.reduce();
    if (best.index % warp_lanes == lane) taken |= 1u << (best.index / warp_lanes);
    if (lane == j) mine = best.index;
  }
  const Chosen chosen(router, logits, mine);
  if (lane < static_cast<int>(num_choices)) {
    experts[token * num_choices + lane] = mine;
    weights[token * num_choices + lane] = chosen.score / chosen.divisor * router.scale;
  }
}

/// Moves 8 T E bytes and 8 for each choice.
__global__ void __launch_bounds__(router_threads)
    backward_kernel(RouterView router, float* dlogits, const std::int32_t* experts, const float* dweights) {
  const std::int64_t token = token_of_warp(), num_choices = router.num_choices, num_experts = router.num_experts;
  if (token >= router.num_tokens) return;
  const std::int64_t lane = lane_of_thread();
  const bool is_choice = lane < num_choices;
  const float* logits = router.logits + token * num_experts;
  const int expert = is_choice ? experts[token * num_choices + lane] : -1;
  const float dweight = is_choice ? dweights[token * num_choices + lane] : 0.0f;
  const Chosen chosen(router, logits, expert);
  const float share = chosen.score / chosen.divisor;
  float mean = warp_sum(dweight * share);
  if (router.is_sigmoid && !router.normalizes) mean = 0.0f;
  float* row = dlogits + token * num_experts;
  if (!router.is_sigmoid && !router.normalizes) {
    const Softmax all(logits, num_experts);
    for (std::int64_t e = lane; e < num_experts; e += warp_lanes) row[e] = -router.scale * mean * all.of(logits[e]);
  } else {
    for (std::int64_t e = lane; e < num_experts; e += warp_lanes) row[e] = 0.0f;
  }
  __syncwarp();
  const float slope = router.is_sigmoid ? 1.0f - chosen.score : 1.0f;
  if (is_choice) row[expert] = router.scale * (dweight - mean) * share * slope;
}

/// Each block sums up the probabilities of block_tokens tokens into its row of `partials`. Moves 4 T E bytes.
__global__ void __launch_bounds__(router_threads)
    partial_sums_kernel(double* partials, const float* logits, std::int64_t num_tokens, std::int64_t num_experts,
                        std::int64_t block_tokens) {
  auto* sums = shared_memory<double>();  // (router_warps, E); each lane has its experts
  double* mine = sums + threadIdx.x / warp_size * num_experts;
  for (std::int64_t e = lane_of_thread(); e < num_experts; e += warp_lanes) mine[e] = 0.0;
  const std::int64_t begin = blockIdx.x * block_tokens,
                     end = begin + block_tokens < num_tokens ? begin + block_tokens : num_tokens;
  for (std::int64_t t = begin + threadIdx.x / warp_size; t < end; t += router_warps) {
    const float* row = logits + t * num_experts;
    const Softmax all(row, num_experts);
    for (std::int64_t e = lane_of_thread(); e < num_experts; e += warp_lanes) {
      mine[e] += static_cast<double>(all.of(row[e]));
    }
  }
  __syncthreads();
  for (std::int64_t e = threadIdx.x; e < num_experts; e += router_threads) {
    double total = 0.0;
    for (unsigned warp = 0; warp < router_warps; ++warp) total += sums[warp * num_experts + e];
    partials[blockIdx.x * num_experts + e] = total;
  }
}

struct Sums {
  const std::int32_t* expert_counts;
  double *counts, *probabilities;
  std::int64_t num_experts;
};

/// Adds up the partial sums, and the counts.
__global__ void __launch_bounds__(router_threads)
    add_sums_kernel(Sums sums, const double* partials, std::int64_t num_partials) {
  const std::int64_t e = static_cast<std::int64_t>(blockIdx.x) * router_threads + threadIdx.x;
  if (e >= sums.num_experts) return;
  double total = 0.0;
  for (std::int64_t i = 0; i < num_partials; ++i) total += partials[i * sums.num_experts + e];
  sums.probabilities[e] += total;
  sums.counts[e] += static_cast<double>(sums.expert_counts[e]);
}

struct SumsBackward {
  float* dlogits;
  const float* logits;
  const double* counts;
  double factor;
  std::int64_t num_tokens, num_experts;
};

/// Moves 12 T E bytes.
__global__ void __launch_bounds__(router_threads) sums_backward_kernel(SumsBackward sums) {
  const std::int64_t token = token_of_warp(), num_experts = sums.num_experts;
  if (token >= sums.num_tokens) return;
  const float* logits = sums.logits + token * num_experts;
  float* row = sums.dlogits + token * num_experts;
  const Softmax all(logits, num_experts);
  float mean = 0.0f;
  for (std::int64_t e = lane_of_thread(); e < num_experts; e += warp_lanes) {
    mean += static_cast<float>(sums.factor * sums.counts[e]) * all.of(logits[e]);
  }
  mean = warp_sum(mean);
  for (std::int64_t e = lane_of_thread(); e < num_experts; e += warp_lanes) {
    row[e] += all.of(logits[e]) * (static_cast<float>(sums.factor * sums.counts[e]) - mean);
  }
}

/// Blocks that sum up tokens at most: each leaves a row of float64 for the experts in the workspace.
constexpr std::int64_t router_sums_blocks = 512;

dim3 blocks_of(std::int64_t num_tokens) {
  return dim3(static_cast<unsigned>((num_tokens + router_warps - 1) / router_warps));
}

}  // namespace

template <>
void run(const ops::RouterForward& op, const Context& context) {
  const RouterView router = view_of(op);
  std::int32_t* const experts = int32s_of(op.experts);
  float* const weights = floats_of(op.weights);
  const cudaStream_t stream = context.stream;
  if (router.num_tokens == 0) return;
  launch("router_forward", forward_kernel, blocks_of(router.num_tokens), dim3(router_threads),
         router_warps * router.num_experts * sizeof(float), stream, router, experts, weights);
}

template <>
void run(const ops::RouterBackward& op, const Context& context) {
  const RouterView router = view_of(op);
  float* const dlogits = floats_of(op.dlogits);
  const std::int32_t* const experts = int32s_of(op.experts);
  const float* const dweights = floats_of(op.dweights);
  const cudaStream_t stream = context.stream;
  if (router.num_tokens == 0) return;
  launch("router_backward", backward_kernel, blocks_of(router.num_tokens), dim3(router_threads), 0, stream, router,
         dlogits, experts, dweights);
}

template <>
void run(const ops::RouterSums& op, const Context& context) {
  const Sums sums{int32s_of(op.expert_counts), doubles_of(op.counts), doubles_of(op.probabilities), op.logits.shape[1]};
  const float* const logits = floats_of(op.logits);
  const std::int64_t num_tokens = op.logits.shape[0];
  const Workspace workspace =
      context.scratch(router_sums_blocks * static_cast<std::size_t>(sums.num_experts) * sizeof(double));
  const cudaStream_t stream = context.stream;
  auto* partials = static_cast<double*>(workspace.data);
  constexpr std::int64_t least_tokens = 64;
  const std::int64_t fair = (num_tokens + router_sums_blocks - 1) / router_sums_blocks,
                     block_tokens = fair > least_tokens ? fair : least_tokens,
                     num_blocks = (num_tokens + block_tokens - 1) / block_tokens;
  if (num_blocks > 0) {
    launch("router_sums", partial_sums_kernel, dim3(static_cast<unsigned>(num_blocks)), dim3(router_threads),
           router_warps * sums.num_experts * sizeof(double), stream, partials, logits, num_tokens, sums.num_experts,
           block_tokens);
  }
  launch("router_sums_add", add_sums_kernel,
         dim3(static_cast<unsigned>((sums.num_experts + router_threads - 1) / router_threads)), dim3(router_threads), 0,
         stream, sums, partials, num_blocks);
}

template <>
void run(const ops::RouterSumsBackward& op, const Context& context) {
  const SumsBackward sums{floats_of(op.dlogits), floats_of(op.logits), doubles_of(op.counts), op.factor,
                          op.logits.shape[0],    op.logits.shape[1]};
  const cudaStream_t stream = context.stream;
  if (sums.num_tokens == 0) return;
  launch("router_sums_backward", sums_backward_kernel, blocks_of(sums.num_tokens), dim3(router_threads), 0, stream,
         sums);
}

}  // namespace sft::ops::cuda
