// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/attention_calls.hpp"

#include <cuda_bf16.h>

#include "ops/cuda/kernels/partials.hpp"
#include "ops/cuda/launch.cuh"
#include "sft/ops/calls/attention.hpp"

namespace sft::ops::cuda {

namespace {

constexpr float minus_infinity = -__builtin_inff();
constexpr int heads_at_once = 32, lanes = 8, threads = heads_at_once * lanes;
constexpr std::int64_t max_partials = 128, least_tokens = 64;

/// blockIdx.y's tokens of 32 neighbouring heads: lane l takes tokens l, l + 8, ..., and thread (x, 0) adds up the
/// lanes.
///
/// Moves 8 bytes a token and head, and 4 bytes a partial sum.
__global__ __launch_bounds__(threads) void sinks_kernel(float* partials, const Weight sinks, const float* lse,
                                                        const float* delta, std::int64_t num_tokens, int num_heads,
                                                        std::int64_t tokens_of_block) {
  auto* sums = sft::cuda::shared_memory<float>();  // (lanes, heads_at_once)
  const int head = static_cast<int>(blockIdx.x) * heads_at_once + static_cast<int>(threadIdx.x);
  const std::int64_t begin = blockIdx.y * tokens_of_block, end = min(begin + tokens_of_block, num_tokens);
  float sum = 0.0f;
  if (head < num_heads) {
    const float sink = sinks.is_bf16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(sinks.data)[head])
                                     : static_cast<const float*>(sinks.data)[head];
    for (std::int64_t token = begin + threadIdx.y; token < end; token += lanes) {
      const float total = lse[token * num_heads + head];
      if (total != minus_infinity) sum -= expf(sink - total) * delta[token * num_heads + head];
    }
  }
  sums[threadIdx.y * heads_at_once + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || head >= num_heads) return;
  for (int lane = 1; lane < lanes; ++lane) sum += sums[lane * heads_at_once + threadIdx.x];
  partials[static_cast<std::int64_t>(blockIdx.y) * num_heads + head] = sum;
}

/// Rows of partial sums, whose column sums are the gradient: each is of some tokens.
std::int64_t num_partials_of(std::int64_t num_tokens) {
  const std::int64_t wanted = (num_tokens + least_tokens - 1) / least_tokens;
  return wanted < max_partials ? wanted : max_partials;
}

}  // namespace

template <>
void run(const ops::AttentionSinksBackward& op, const Context& context) {
  if (op.lse.empty()) return;
  const std::int64_t num_tokens = op.lse.shape[0];
  const int num_heads = static_cast<int>(op.lse.shape[1]);
  const std::int64_t num_partials = num_partials_of(num_tokens);
  const Partials partials(context, op.dsinks, num_partials, num_heads);
  const Weight sinks{op.sinks.data, op.sinks.dtype == DType::bf16};
  const dim3 grid(static_cast<unsigned>((num_heads + heads_at_once - 1) / heads_at_once),
                  static_cast<unsigned>(num_partials));
  sft::cuda::launch("attention_sinks_backward", sinks_kernel, grid, dim3(heads_at_once, lanes), threads * sizeof(float),
                    context.stream, partials.data(), sinks, floats_of(op.lse), floats_of(op.delta), num_tokens,
                    num_heads, (num_tokens + num_partials - 1) / num_partials);
  partials.add_up();
}

}  // namespace sft::ops::cuda
