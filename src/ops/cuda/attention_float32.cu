// SPDX-License-Identifier: Apache-2.0
// FlashAttention-2 (Dao 2023) in plain float32 arithmetic; the kernels have the structure of attention_sm80_*.cu, and
// those say more. Eight neighbouring threads share an own row: each has every eighth column of its sums and every
// eighth other row of its scores.

#include "ops/cuda/attention_calls.hpp"

#include "ops/cuda/attention_blocks.cuh"
#include "ops/cuda/launch.cuh"

namespace sft::ops::cuda {

namespace {

constexpr int threads_of_row = 8;

/// kRows own rows, and as many other ones at a time, of up to kColumns numbers.
template <int kRowsOf, int kColumnsOf>
struct Sizes {
  static constexpr int kRows = kRowsOf, kColumns = kColumnsOf;
  static constexpr int kThreads = kRows * threads_of_row, kPart = kColumns / threads_of_row;
};

/// Rows in shared memory: an odd number of words apart, so that the same column of several lies in different banks.
__host__ __device__ constexpr int pitch_of(int columns) { return columns | 1; }

/// Fills a tile of kRows rows with `count` rows of one head from row `first` on; rows behind are zero.
template <int kRows, int kThreads>
__device__ __forceinline__ void load_rows(float* tile, const ConstHeadRows& x, std::int64_t first, int count, int head,
                                          int head_dim) {
  const float* source = static_cast<const float*>(x.data) + first * x.row_stride + head * head_dim;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int row = static_cast<int>(threadIdx.x) / 32; row < kRows; row += kThreads / 32) {
    for (int d = lane; d < head_dim; d += 32) {
      tile[row * pitch_of(head_dim) + d] = row < count ? source[row * x.row_stride + d] : 0.0f;
    }
  }
}

/// products[i] = a times row i threads_of_row of a tile; each number of a is read once for all of them.
template <int kCount>
__device__ __forceinline__ void multiply_rows(float (&products)[kCount], const float* a, const float* tile,
                                              int head_dim) {
  const int distance = threads_of_row * pitch_of(head_dim);
#pragma unroll
  for (int i = 0; i < kCount; ++i) products[i] = 0.0f;
  for (int d = 0; d < head_dim; ++d) {
    const float factor = a[d];
#pragma unroll
    for (int i = 0; i < kCount; ++i) products[i] += factor * tile[i * distance + d];
  }
}

/// sums += weight * this thread's columns of a row.
template <int kPart>
__device__ __forceinline__ void add_row(float (&sums)[kPart], float weight, const float* row, int head_dim) {
  const int first = static_cast<int>(threadIdx.x) % threads_of_row;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const int d = first + threads_of_row * i;
    if (d < head_dim) sums[i] += weight * row[d];
  }
}

/// This thread's columns of a row of one head = factor * sums [+ before * what the row held where `before` is not 0].
template <int kPart>
__device__ __forceinline__ void store_row(const HeadRows& out, std::int64_t row, int head, int head_dim,
                                          const float (&sums)[kPart], float factor, float before) {
  float* to = static_cast<float*>(out.data) + row * out.row_stride + head * head_dim;
  const int first = static_cast<int>(threadIdx.x) % threads_of_row;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const int d = first + threads_of_row * i;
    if (d < head_dim) to[d] = before != 0.0f ? factor * sums[i] + before * to[d] : factor * sums[i];
  }
}

/// Over the eight threads of a row.
__device__ __forceinline__ float sum_over_row(float x) {
  for (int distance = 1; distance < threads_of_row; distance *= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
  return x;
}
__device__ __forceinline__ float largest_of_row(float x) {
  for (int distance = 1; distance < threads_of_row; distance *= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
  }
  return x;
}

/// out and lse of one query tile of one head. 4 D FLOPs per head and visible pair; keys and values are read once for
/// every kRows queries, 8 D bytes each.
template <class Sizes, bool kWindowed, bool kCapped>
__global__ __launch_bounds__(Sizes::kThreads, 2) void forward_kernel(const AttentionForwardCall call) {
  constexpr int kRows = Sizes::kRows, kThreads = Sizes::kThreads;
  const WorkItem item = work_item<kRows>(blockIdx.x, call.queries, call.num_heads, call.heads_at_once);
  if (item.count <= 0 || (call.merges && item.range_begin == item.range_end)) return;
  const int head_dim = call.head_dim, kv_head = item.head / (call.num_heads / call.num_kv_heads);
  const int pitch = pitch_of(head_dim), row = static_cast<int>(threadIdx.x) / threads_of_row;
  const int first = static_cast<int>(threadIdx.x) % threads_of_row;
  float* queries = sft::cuda::shared_memory<float>();
  float* keys = queries + kRows * pitch;
  float* values = keys + kRows * pitch;
  float* weights = values + kRows * pitch + row * pitch_of(kRows);  // of this row

  load_rows<kRows, kThreads>(queries, call.q, item.begin, item.count, item.head, head_dim);
  float sums[Sizes::kPart] = {};
  float largest = minus_infinity, total = 0.0f;
  for (BlockWalk<true, kRows, kWindowed> walk(call.queries, item); !walk.is_done(); walk.advance()) {
    const OtherBlock block = walk.block();
    __syncthreads();  // the keys and values before are used
    load_rows<kRows, kThreads>(keys, call.k, block.begin, block.count, kv_head, head_dim);
    load_rows<kRows, kThreads>(values, call.v, block.begin, block.count, kv_head, head_dim);
    __syncthreads();
    float scores[kRows / threads_of_row];
    multiply_rows(scores, queries + row * pitch, keys + first * pitch, head_dim);
    float top = minus_infinity;
#pragma unroll
    for (int i = 0; i < kRows / threads_of_row; ++i) {
      const int other = first + threads_of_row * i;
      scores[i] =
          meets<true, kWindowed>(block, call.queries.window, row, other) ? call.scale * scores[i] : minus_infinity;
      if (kCapped && scores[i] != minus_infinity) scores[i] = call.softcap * tanhf(scores[i] / call.softcap);
      top = fmaxf(top, scores[i]);
    }
    const float before = largest;
    largest = fmaxf(largest, largest_of_row(top));
    const float reference = largest == minus_infinity ? 0.0f : largest, rescale = expf(before - reference);
    total *= rescale;
#pragma unroll
    for (int i = 0; i < Sizes::kPart; ++i) sums[i] *= rescale;
#pragma unroll
    for (int i = 0; i < kRows / threads_of_row; ++i) {
      const float weight = expf(scores[i] - reference);
      weights[first + threads_of_row * i] = weight;
      total += weight;
    }
    __syncwarp();
    for (int other = 0; other < block.count; ++other) add_row(sums, weights[other], values + other * pitch, head_dim);
  }

  total = sum_over_row(total);
  const std::int64_t query = item.begin + row;
  float* lse = call.lse + query * call.num_heads + item.head;
  const float own = total == 0.0f ? minus_infinity : largest + logf(total);
  const float earlier = call.merges && row < item.count ? *lse : sink_of(call.sinks, item);
  __syncwarp();  // all of a row have read it
  if (row >= item.count) return;
  float factor = total == 0.0f ? 0.0f : 1.0f / total, before = 0.0f, merged = own;
  if (earlier != minus_infinity) {
    const float top = fmaxf(own, earlier);
    merged = top + logf(expf(own - top) + expf(earlier - top));
    factor *= expf(own - merged);
    if (call.merges) before = expf(earlier - merged);
  }
  store_row(call.out, query, item.head, head_dim, sums, factor, before);
  if (first == 0) *lse = merged;
}

/// The gradients of one tile of queries or of keys of one head: 6 D FLOPs per head and visible pair for queries, 8 D
/// for keys; the other side is read once for every kRows own rows, 8 D bytes each.
template <class Sizes, bool kOwnIsQueries, bool kWindowed, bool kCapped>
__global__ __launch_bounds__(Sizes::kThreads, 2) void backward_kernel(const AttentionBackwardCall call) {
  constexpr int kRows = Sizes::kRows, kThreads = Sizes::kThreads;
  const AttentionSide& side = kOwnIsQueries ? call.queries : call.keys;
  const int group = call.num_heads / call.num_kv_heads, head_dim = call.head_dim;
  const WorkItem item = work_item<kRows>(blockIdx.x, side, kOwnIsQueries ? call.num_heads : call.num_kv_heads,
                                         kOwnIsQueries ? call.heads_at_once : call.heads_at_once / group);
  const bool adds = kOwnIsQueries ? call.adds_to_dq : call.adds_to_dkv;
  if (item.count <= 0 || (adds && item.range_begin == item.range_end)) return;
  const int pitch = pitch_of(head_dim), row = static_cast<int>(threadIdx.x) / threads_of_row;
  const int first = static_cast<int>(threadIdx.x) % threads_of_row;
  float* own0 = sft::cuda::shared_memory<float>();
  float* own1 = own0 + kRows * pitch;
  float* other0 = own1 + kRows * pitch;
  float* other1 = other0 + kRows * pitch;
  float* dscores = other1 + kRows * pitch + row * pitch_of(kRows);  // of this row
  float* probabilities = dscores + kRows * pitch_of(kRows);

  load_rows<kRows, kThreads>(own0, kOwnIsQueries ? call.q : call.k, item.begin, item.count, item.head, head_dim);
  load_rows<kRows, kThreads>(own1, kOwnIsQueries ? call.dout : call.v, item.begin, item.count, item.head, head_dim);
  float sums0[Sizes::kPart] = {}, sums1[Sizes::kPart] = {};  // sums1 of keys alone
  const int head_begin = kOwnIsQueries ? item.head / group : item.head * group;
  const int head_end = head_begin + (kOwnIsQueries ? 1 : group);
  GroupWalk<kOwnIsQueries, kRows, kWindowed> walk(side, item, head_begin, head_end);
  for (; !walk.is_done(); walk.advance()) {
    const OtherBlock block = walk.block();
    const int head = walk.head(), query_head = kOwnIsQueries ? item.head : head;
    __syncthreads();  // the block before is used
    load_rows<kRows, kThreads>(other0, kOwnIsQueries ? call.k : call.q, block.begin, block.count, head, head_dim);
    load_rows<kRows, kThreads>(other1, kOwnIsQueries ? call.v : call.dout, block.begin, block.count, head, head_dim);
    __syncthreads();
    float scores[kRows / threads_of_row], dprobabilities[kRows / threads_of_row];
    multiply_rows(scores, own0 + row * pitch, other0 + first * pitch, head_dim);
    multiply_rows(dprobabilities, own1 + row * pitch, other1 + first * pitch, head_dim);
#pragma unroll
    for (int i = 0; i < kRows / threads_of_row; ++i) {
      const int other = first + threads_of_row * i;
      float probability = 0.0f, dscore = 0.0f;
      if (row < item.count && meets<kOwnIsQueries, kWindowed>(block, side.window, row, other)) {
        const std::int64_t query = kOwnIsQueries ? item.begin + row : block.begin + other;
        const float lse = call.lse[query * call.num_heads + query_head];
        float score = call.scale * scores[i], slope = 1.0f;
        if (kCapped) {
          const float share = tanhf(score / call.softcap);  // of the cap
          score = call.softcap * share;
          slope = 1.0f - share * share;
        }
        probability = lse == minus_infinity ? 0.0f : expf(score - lse);
        dscore = probability * (dprobabilities[i] - call.delta[query * call.num_heads + query_head]);
        if (kCapped) dscore *= slope;
      }
      dscores[other] = dscore;
      if (!kOwnIsQueries) probabilities[other] = probability;
    }
    __syncwarp();
    for (int other = 0; other < block.count; ++other) {
      add_row(sums0, dscores[other], other0 + other * pitch, head_dim);
      if (!kOwnIsQueries) add_row(sums1, probabilities[other], other1 + other * pitch, head_dim);
    }
  }
  if (row >= item.count) return;
  const float before = adds ? 1.0f : 0.0f;
  store_row(kOwnIsQueries ? call.dq : call.dk, item.begin + row, item.head, head_dim, sums0, call.scale, before);
  if (!kOwnIsQueries) store_row(call.dv, item.begin + row, item.head, head_dim, sums1, 1.0f, before);
}

/// Blocks of threads for a side.
template <class Sizes>
dim3 grid_of(const AttentionSide& side, int num_heads) {
  return dim3(static_cast<unsigned>(static_cast<std::int64_t>(side.num_tiles) * (attention_tile_rows / Sizes::kRows) *
                                    num_heads));
}

/// Of `num_tiles` tiles of rows and `num_scores` tiles of scores.
template <class Sizes>
std::size_t shared_bytes(int num_tiles, int num_scores, int head_dim) {
  const int floats = num_tiles * Sizes::kRows * pitch_of(head_dim) + num_scores * Sizes::kRows * pitch_of(Sizes::kRows);
  return floats * sizeof(float);
}

template <class Sizes>
void forward(const AttentionForwardCall& call, cudaStream_t stream) {
  with_variant(call, [&](auto windowed, auto capped) {
    sft::cuda::launch("attention_forward_float32",
                      forward_kernel<Sizes, decltype(windowed)::value, decltype(capped)::value>,
                      grid_of<Sizes>(call.queries, call.num_heads), dim3(Sizes::kThreads),
                      shared_bytes<Sizes>(3, 1, call.head_dim), stream, call);
  });
}

template <class Sizes>
void backward(const AttentionBackwardCall& call, cudaStream_t stream) {
  with_variant(call, [&](auto windowed, auto capped) {
    constexpr bool is_windowed = decltype(windowed)::value, is_capped = decltype(capped)::value;
    if (call.keys.num_tiles > 0) {
      sft::cuda::launch("attention_backward_keys_float32", backward_kernel<Sizes, false, is_windowed, is_capped>,
                        grid_of<Sizes>(call.keys, call.num_kv_heads), dim3(Sizes::kThreads),
                        shared_bytes<Sizes>(4, 2, call.head_dim), stream, call);
    }
    if (call.queries.num_tiles > 0) {
      sft::cuda::launch("attention_backward_queries_float32", backward_kernel<Sizes, true, is_windowed, is_capped>,
                        grid_of<Sizes>(call.queries, call.num_heads), dim3(Sizes::kThreads),
                        shared_bytes<Sizes>(4, 1, call.head_dim), stream, call);
    }
  });
}

using Narrow = Sizes<32, 128>;
using Wide = Sizes<16, 256>;

}  // namespace

void attention_forward_float32(const AttentionForwardCall& call, cudaStream_t stream) {
  if (call.queries.num_tiles == 0) return;
  call.head_dim <= Narrow::kColumns ? forward<Narrow>(call, stream) : forward<Wide>(call, stream);
}

void attention_backward_float32(const AttentionBackwardCall& call, cudaStream_t stream) {
  call.head_dim <= Narrow::kColumns ? backward<Narrow>(call, stream) : backward<Wide>(call, stream);
}

}  // namespace sft::ops::cuda
