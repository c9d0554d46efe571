// SPDX-License-Identifier: Apache-2.0
// FlashAttention-2 (Dao 2023) in plain float32 arithmetic; the kernels have the structure of attention_sm80_*.cu, and
// those say more. Eight neighbouring threads share two own rows: each has every eighth four columns of their sums and
// every eighth other row of their scores. So what comes from shared memory, four numbers at a time, is used for both.

#include "ops/cuda/attention_calls.hpp"

#include "ops/cuda/attention_blocks.cuh"
#include "ops/cuda/launch.cuh"

namespace sft::ops::cuda {

namespace {

constexpr int threads_of_rows = 8, rows_of_thread = 2;

/// kRows own rows, and as many other ones at a time, of up to kColumns numbers. A thread has the own rows `pair` and
/// kDistance + `pair`.
template <int kRowsOf, int kColumnsOf>
struct Sizes {
  static constexpr int kRows = kRowsOf, kColumns = kColumnsOf;
  static constexpr int kDistance = kRows / rows_of_thread, kThreads = kDistance * threads_of_rows;
  static constexpr int kScores = kRows / threads_of_rows;         ///< of a thread and own row
  static constexpr int kPart = kColumns / (4 * threads_of_rows);  ///< fours of columns of a thread
};

/// Columns of rows in shared memory, the last ones zero.
__host__ __device__ constexpr int columns_of(int head_dim) { return (head_dim + 3) / 4 * 4; }
/// These rows are an odd number of fours apart, so that the same columns of eight lie in different banks.
__host__ __device__ constexpr int pitch_of(int head_dim) { return 4 * (columns_of(head_dim) / 4 | 1); }
/// Rows of scores: eight neighbours of four rows lie in different banks.
__host__ __device__ constexpr int score_pitch_of(int rows) { return rows + 8; }

__device__ __forceinline__ void load_four(float (&x)[4], const float* from) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  x[0] = v.x;
  x[1] = v.y;
  x[2] = v.z;
  x[3] = v.w;
}

/// Fills a tile of kRows rows with `count` rows of one head from row `first` on; rows and columns behind are zero.
template <int kRows, int kThreads>
__device__ __forceinline__ void load_rows(float* tile, const ConstHeadRows& x, std::int64_t first, int count, int head,
                                          int head_dim) {
  const float* source = static_cast<const float*>(x.data) + first * x.row_stride + head * head_dim;
  const int lane = static_cast<int>(threadIdx.x) % 32, pitch = pitch_of(head_dim);
  for (int row = static_cast<int>(threadIdx.x) / 32; row < kRows; row += kThreads / 32) {
    const float* from = source + row * x.row_stride;
    if (x.is_vector) {
      for (int d = 4 * lane; d < head_dim; d += 4 * 32) {
        const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        *reinterpret_cast<float4*>(tile + row * pitch + d) =
            row < count ? *reinterpret_cast<const float4*>(from + d) : zero;
      }
    } else {
      for (int d = lane; d < columns_of(head_dim); d += 32) {
        tile[row * pitch + d] = row < count && d < head_dim ? from[d] : 0.0f;
      }
    }
  }
}

/// products[h][i] = own row h times row i threads_of_rows of a tile.
template <int kDistance, int kCount>
__device__ __forceinline__ void multiply_rows(float (&products)[rows_of_thread][kCount], const float* own,
                                              const float* tile, int head_dim) {
  const int pitch = pitch_of(head_dim);
#pragma unroll
  for (int i = 0; i < kCount; ++i) products[0][i] = products[1][i] = 0.0f;
  for (int d = 0; d < head_dim; d += 4) {
    float a[rows_of_thread][4];
#pragma unroll
    for (int h = 0; h < rows_of_thread; ++h) load_four(a[h], own + h * kDistance * pitch + d);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      float b[4];
      load_four(b, tile + i * threads_of_rows * pitch + d);
#pragma unroll
      for (int h = 0; h < rows_of_thread; ++h) {
#pragma unroll
        for (int j = 0; j < 4; ++j) products[h][i] += a[h][j] * b[j];
      }
    }
  }
}

/// sums[h] += this thread's columns of the products of own row h of `weights` and the first `count` rows of a tile.
/// Behind these both are zero.
template <class Sizes>
__device__ __forceinline__ void add_rows(float (&sums)[rows_of_thread][Sizes::kPart][4], const float* weights,
                                         const float* tile, int count, int head_dim) {
  const int first = 4 * (static_cast<int>(threadIdx.x) % threads_of_rows), pitch = pitch_of(head_dim);
  for (int row = 0; row < count; row += 4) {
    float w[rows_of_thread][4];
#pragma unroll
    for (int h = 0; h < rows_of_thread; ++h) {
      load_four(w[h], weights + h * Sizes::kDistance * score_pitch_of(Sizes::kRows) + row);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int i = 0; i < Sizes::kPart; ++i) {
        const int d = first + 4 * threads_of_rows * i;
        if (d >= head_dim) continue;
        float x[4];
        load_four(x, tile + (row + j) * pitch + d);
#pragma unroll
        for (int h = 0; h < rows_of_thread; ++h) {
#pragma unroll
          for (int k = 0; k < 4; ++k) sums[h][i][k] += w[h][j] * x[k];
        }
      }
    }
  }
}

/// This thread's columns of a row of one head = factor * sums [+ before * what the row held where `before` is not 0].
template <int kPart>
__device__ __forceinline__ void store_row(const HeadRows& out, std::int64_t row, int head, int head_dim,
                                          const float (&sums)[kPart][4], float factor, float before) {
  float* to = static_cast<float*>(out.data) + row * out.row_stride + head * head_dim;
  const int first = 4 * (static_cast<int>(threadIdx.x) % threads_of_rows);
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const int d = first + 4 * threads_of_rows * i;
    float x[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = factor * sums[i][j];
    if (out.is_vector && d < head_dim) {
      if (before != 0.0f) {
        float held[4];
        load_four(held, to + d);
#pragma unroll
        for (int j = 0; j < 4; ++j) x[j] += before * held[j];
      }
      *reinterpret_cast<float4*>(to + d) = make_float4(x[0], x[1], x[2], x[3]);
      continue;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (d + j < head_dim) to[d + j] = before != 0.0f ? x[j] + before * to[d + j] : x[j];
    }
  }
}

/// Over the eight threads of two rows.
__device__ __forceinline__ float sum_over_threads(float x) {
  for (int distance = 1; distance < threads_of_rows; distance *= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
  return x;
}
__device__ __forceinline__ float largest_of_threads(float x) {
  for (int distance = 1; distance < threads_of_rows; distance *= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
  }
  return x;
}

/// out and lse of one query tile of one head. 4 D FLOPs per head and visible pair; keys and values are read once for
/// every kRows queries, 8 D bytes each.
template <class Sizes, bool kWindowed, bool kCapped>
__global__ __launch_bounds__(Sizes::kThreads, 3) void forward_kernel(const AttentionForwardCall call) {
  constexpr int kRows = Sizes::kRows, kThreads = Sizes::kThreads, kScores = Sizes::kScores;
  const WorkItem item = work_item<kRows>(blockIdx.x, call.queries, call.num_heads, call.heads_at_once);
  if (item.count <= 0 || (call.merges && item.range_begin == item.range_end)) return;
  const int head_dim = call.head_dim, kv_head = item.head / (call.num_heads / call.num_kv_heads);
  const int pitch = pitch_of(head_dim), pair = static_cast<int>(threadIdx.x) / threads_of_rows;
  const int first = static_cast<int>(threadIdx.x) % threads_of_rows;
  float* queries = sft::cuda::shared_memory<float>();
  float* keys = queries + kRows * pitch;
  float* values = keys + kRows * pitch;
  float* weights = values + kRows * pitch + pair * score_pitch_of(kRows);  // of these rows

  load_rows<kRows, kThreads>(queries, call.q, item.begin, item.count, item.head, head_dim);
  float sums[rows_of_thread][Sizes::kPart][4] = {};
  float largest[rows_of_thread] = {minus_infinity, minus_infinity}, total[rows_of_thread] = {};
  for (BlockWalk<true, kRows, kWindowed> walk(call.queries, item); !walk.is_done(); walk.advance()) {
    const OtherBlock block = walk.block();
    __syncthreads();  // the keys and values before are used
    load_rows<kRows, kThreads>(keys, call.k, block.begin, block.count, kv_head, head_dim);
    load_rows<kRows, kThreads>(values, call.v, block.begin, block.count, kv_head, head_dim);
    __syncthreads();
    float scores[rows_of_thread][kScores];
    multiply_rows<Sizes::kDistance>(scores, queries + pair * pitch, keys + first * pitch, head_dim);
#pragma unroll
    for (int h = 0; h < rows_of_thread; ++h) {
      const int row = pair + h * Sizes::kDistance;
      float top = minus_infinity;
#pragma unroll
      for (int i = 0; i < kScores; ++i) {
        float& score = scores[h][i];
        const int other = first + threads_of_rows * i;
        score = meets<true, kWindowed>(block, call.queries.window, row, other) ? call.scale * score : minus_infinity;
        if (kCapped && score != minus_infinity) score = call.softcap * tanhf(score / call.softcap);
        top = fmaxf(top, score);
      }
      const float before = largest[h];
      largest[h] = fmaxf(largest[h], largest_of_threads(top));
      const float reference = largest[h] == minus_infinity ? 0.0f : largest[h], rescale = expf(before - reference);
      total[h] *= rescale;
#pragma unroll
      for (int i = 0; i < Sizes::kPart; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[h][i][j] *= rescale;
      }
#pragma unroll
      for (int i = 0; i < kScores; ++i) {
        const float weight = expf(scores[h][i] - reference);
        weights[h * Sizes::kDistance * score_pitch_of(kRows) + first + threads_of_rows * i] = weight;
        total[h] += weight;
      }
    }
    __syncwarp();
    add_rows<Sizes>(sums, weights, values, block.count, head_dim);
  }

#pragma unroll
  for (int h = 0; h < rows_of_thread; ++h) {
    const int row = pair + h * Sizes::kDistance;
    const float all = sum_over_threads(total[h]);
    const std::int64_t query = item.begin + row;
    float* lse = call.lse + query * call.num_heads + item.head;
    const float own = all == 0.0f ? minus_infinity : largest[h] + logf(all);
    const float earlier = call.merges && row < item.count ? *lse : sink_of(call.sinks, item);
    __syncwarp();  // all threads of a row have read it
    if (row >= item.count) continue;
    float factor = all == 0.0f ? 0.0f : 1.0f / all, before = 0.0f, merged = own;
    if (earlier != minus_infinity) {
      const float top = fmaxf(own, earlier);
      merged = top + logf(expf(own - top) + expf(earlier - top));
      factor *= expf(own - merged);
      if (call.merges) before = expf(earlier - merged);
    }
    store_row(call.out, query, item.head, head_dim, sums[h], factor, before);
    if (first == 0) *lse = merged;
  }
}

/// Log-sum-exp and delta of a query and head.
struct QueryNumbers {
  float lse = minus_infinity, delta = 0.0f;
};
__device__ __forceinline__ QueryNumbers numbers_of(const AttentionBackwardCall& call, std::int64_t query, int head) {
  const std::int64_t place = query * call.num_heads + head;
  return {call.lse[place], call.delta[place]};
}

/// The gradients of one tile of queries or of keys of one head: 6 D FLOPs per head and visible pair for queries, 8 D
/// for keys; the other side is read once for every kRows own rows, 8 D bytes each.
template <class Sizes, bool kOwnIsQueries, bool kWindowed, bool kCapped>
__global__ __launch_bounds__(Sizes::kThreads, 2) void backward_kernel(const AttentionBackwardCall call) {
  constexpr int kRows = Sizes::kRows, kThreads = Sizes::kThreads, kScores = Sizes::kScores;
  const AttentionSide& side = kOwnIsQueries ? call.queries : call.keys;
  const int group = call.num_heads / call.num_kv_heads, head_dim = call.head_dim;
  const WorkItem item = work_item<kRows>(blockIdx.x, side, kOwnIsQueries ? call.num_heads : call.num_kv_heads,
                                         kOwnIsQueries ? call.heads_at_once : call.heads_at_once / group);
  const bool adds = kOwnIsQueries ? call.adds_to_dq : call.adds_to_dkv;
  if (item.count <= 0 || (adds && item.range_begin == item.range_end)) return;
  const int pitch = pitch_of(head_dim), pair = static_cast<int>(threadIdx.x) / threads_of_rows;
  const int first = static_cast<int>(threadIdx.x) % threads_of_rows;
  float* own0 = sft::cuda::shared_memory<float>();
  float* own1 = own0 + kRows * pitch;
  float* other0 = own1 + kRows * pitch;
  float* other1 = other0 + kRows * pitch;
  float* dscores = other1 + kRows * pitch + pair * score_pitch_of(kRows);  // of these rows
  float* probabilities = dscores + kRows * score_pitch_of(kRows);

  load_rows<kRows, kThreads>(own0, kOwnIsQueries ? call.q : call.k, item.begin, item.count, item.head, head_dim);
  load_rows<kRows, kThreads>(own1, kOwnIsQueries ? call.dout : call.v, item.begin, item.count, item.head, head_dim);
  QueryNumbers own_numbers[rows_of_thread];  // of queries
#pragma unroll
  for (int h = 0; h < rows_of_thread; ++h) {
    const int row = pair + h * Sizes::kDistance;
    if (kOwnIsQueries && row < item.count) own_numbers[h] = numbers_of(call, item.begin + row, item.head);
  }
  float sums0[rows_of_thread][Sizes::kPart][4] = {},
        sums1[rows_of_thread][Sizes::kPart][4] = {};  // sums1 of keys alone
  const int head_begin = kOwnIsQueries ? item.head / group : item.head * group;
  const int head_end = head_begin + (kOwnIsQueries ? 1 : group);
  GroupWalk<kOwnIsQueries, kRows, kWindowed> walk(side, item, head_begin, head_end);
  for (; !walk.is_done(); walk.advance()) {
    const OtherBlock block = walk.block();
    const int head = walk.head();
    __syncthreads();  // the block before is used
    load_rows<kRows, kThreads>(other0, kOwnIsQueries ? call.k : call.q, block.begin, block.count, head, head_dim);
    load_rows<kRows, kThreads>(other1, kOwnIsQueries ? call.v : call.dout, block.begin, block.count, head, head_dim);
    __syncthreads();
    float scores[rows_of_thread][kScores], dprobabilities[rows_of_thread][kScores];
    multiply_rows<Sizes::kDistance>(scores, own0 + pair * pitch, other0 + first * pitch, head_dim);
    multiply_rows<Sizes::kDistance>(dprobabilities, own1 + pair * pitch, other1 + first * pitch, head_dim);
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const int other = first + threads_of_rows * i;
      QueryNumbers other_numbers;
      if (!kOwnIsQueries && other < block.count) other_numbers = numbers_of(call, block.begin + other, head);
#pragma unroll
      for (int h = 0; h < rows_of_thread; ++h) {
        const int row = pair + h * Sizes::kDistance;
        float probability = 0.0f, dscore = 0.0f;
        if (row < item.count && meets<kOwnIsQueries, kWindowed>(block, side.window, row, other)) {
          const QueryNumbers query = kOwnIsQueries ? own_numbers[h] : other_numbers;
          float score = call.scale * scores[h][i], slope = 1.0f;
          if (kCapped) {
            const float share = tanhf(score / call.softcap);  // of the cap
            score = call.softcap * share;
            slope = 1.0f - share * share;
          }
          probability = query.lse == minus_infinity ? 0.0f : expf(score - query.lse);
          dscore = probability * (dprobabilities[h][i] - query.delta);
          if (kCapped) dscore *= slope;
        }
        const int place = h * Sizes::kDistance * score_pitch_of(kRows) + other;
        dscores[place] = dscore;
        if (!kOwnIsQueries) probabilities[place] = probability;
      }
    }
    __syncwarp();
    add_rows<Sizes>(sums0, dscores, other0, block.count, head_dim);
    if (!kOwnIsQueries) add_rows<Sizes>(sums1, probabilities, other1, block.count, head_dim);
  }
  const float before = adds ? 1.0f : 0.0f;
#pragma unroll
  for (int h = 0; h < rows_of_thread; ++h) {
    const int row = pair + h * Sizes::kDistance;
    if (row >= item.count) continue;
    store_row(kOwnIsQueries ? call.dq : call.dk, item.begin + row, item.head, head_dim, sums0[h], call.scale, before);
    if (!kOwnIsQueries) store_row(call.dv, item.begin + row, item.head, head_dim, sums1[h], 1.0f, before);
  }
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
  const int floats =
      num_tiles * Sizes::kRows * pitch_of(head_dim) + num_scores * Sizes::kRows * score_pitch_of(Sizes::kRows);
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
