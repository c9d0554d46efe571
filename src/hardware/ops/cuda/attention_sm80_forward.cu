// SPDX-License-Identifier: Apache-2.0
// Forward pass of bf16 attention (attention_calls.hpp): FlashAttention-2 (Dao 2023) over the spans of a plan.

#include "ops/cuda/attention_calls.hpp"
#include "ops/cuda/attention_results.cuh"
#include "ops/cuda/attention_sm80.cuh"
#include "ops/cuda/launch.cuh"

namespace sft::ops::cuda {

namespace {

/// Sizes of the kernel for head dims up to kColumns. A warp has 16 kM queries: with 32 of them, two products use what
/// it reads from shared memory, which could not keep up with the matrix units otherwise. Registers set the rest: with
/// 256 columns they do not hold the sums of 32 queries, with 128 not the scores of these and 64 keys beside the sums.
template <int kColumnsOf>
struct ForwardSizes {
  static constexpr int kColumns = kColumnsOf;
  static constexpr int kM = kColumns <= 128 ? 2 : 1;
  static constexpr int kWarps = 4, kThreads = 32 * kWarps;
  static constexpr int kRows = 16 * kM * kWarps, kOther = kColumns == 128 ? 48 : 64;
  static constexpr int kMinBlocks = kColumns <= 128 ? 2 : 1;  ///< that share a multiprocessor
  static constexpr int kTileBytes = (kRows + 2 * kOther) * kColumns * static_cast<int>(sizeof(Bf16));
  static constexpr int kStagedBytes = kRows * kColumns * static_cast<int>(sizeof(float));
  /// Queries, keys and values, or the result; behind them a factor for each row.
  static constexpr int kRowsBegin = kTileBytes > kStagedBytes ? kTileBytes : kStagedBytes;
  static constexpr std::size_t kSharedBytes = kRowsBegin + kRows * sizeof(float);
};

/// out and lse of one query tile of one head, a block of threads each. For every block of keys: scores = q k^T; the
/// running maximum and sum of each query; out = rescaled out + exp(scores - maximum) v. Values arrive while scores are
/// computed, the next keys while out is.
///
/// 4 D FLOPs per head and visible pair of query and key. A tile reads its queries once and, from the L2 cache, 4 D
/// bytes of keys and values per key for its 64 or 128 queries; device memory sees q, k, v and out once where the keys
/// and values of heads_at_once heads fit in that cache.
template <class Sizes, bool kWindowed, bool kCapped>
__global__ __launch_bounds__(Sizes::kThreads, Sizes::kMinBlocks) void forward_kernel(const AttentionForwardCall call) {
  constexpr int kM = Sizes::kM, kOther = Sizes::kOther, kColumns = Sizes::kColumns, kThreads = Sizes::kThreads;
  const auto item_of = [&](unsigned number) {
    return work_item<Sizes::kRows>(number, call.queries, call.num_heads, call.heads_at_once);
  };
  const WorkItem item = item_of(blockIdx.x);
  if (item.count <= 0 || (call.merges && item.range_begin == item.range_end)) return;
  const int head_dim = call.head_dim, kv_head = item.head / (call.num_heads / call.num_kv_heads);
  Bf16* queries = sft::cuda::shared_memory<Bf16>();
  Bf16* keys = queries + Sizes::kRows * kColumns;
  Bf16* values = keys + kOther * kColumns;
  const auto load = [&](Bf16* tile, const ConstHeadRows& x, const OtherBlock& block) {
    load_tile<kOther, kColumns, kThreads>(tile, x, block.begin, block.count, kv_head, head_dim);
  };

  const int window = call.queries.window;
  BlockWalk<true, kOther, kWindowed> walk(call.queries, item);
  if (!walk.is_done()) {
    load_tile<Sizes::kRows, kColumns, kThreads>(queries, call.q, item.begin, item.count, item.head, head_dim);
    load(keys, call.k, walk.block());
    ptx::commit_copies();
  }

  // This thread's part of rows first_row + 16 m + 8 half of the tile.
  const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * kM, first_row = warp_row + lane / 4;
  float sums[kM][kColumns / 8][4] = {};
  float largest[kM][2], total[kM][2] = {};  // of scores in units of ln 2; total of this thread's columns
#pragma unroll
  for (int m = 0; m < kM; ++m) largest[m][0] = largest[m][1] = minus_infinity;

  const float scale = (kCapped ? call.softcap : call.scale) * log2_of_e;
  while (!walk.is_done()) {
    const OtherBlock block = walk.block();
    ptx::wait_copies<0>();
    __syncthreads();  // the keys are there, and the values before are used
    load(values, call.v, block);
    ptx::commit_copies();
    // A warp without a query, or whose queries see none of the block, has nothing to add.
    const bool works = warp_row < item.count && may_meet<true, kWindowed>(block, window, warp_row, 16 * kM);
    float scores[kM][kOther / 8][4];
    if (works) multiply_rows<kM, kOther, kColumns>(scores, queries, keys);
    if (kCapped && works) {
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int n = 0; n < kOther / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            scores[m][n][i] = share_of_cap(scores[m][n][i] * (call.scale / call.softcap * 2.0f * log2_of_e));
          }
        }
      }
    }
    if (works && needs_mask<true, kWindowed>(block, window, Sizes::kRows, kOther)) {
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int n = 0; n < kOther / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int row = first_row + 16 * m + 8 * (i / 2), other = 8 * n + 2 * t + i % 2;
            if (!meets<true, kWindowed>(block, window, row, other)) scores[m][n][i] = minus_infinity;
          }
        }
      }
    }
    ptx::wait_copies<0>();
    __syncthreads();  // the values are there, and the keys are used
    walk.advance();
    if (!walk.is_done()) load(keys, call.k, walk.block());
    ptx::commit_copies();
    if (!works) continue;
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = minus_infinity;
#pragma unroll
        for (int n = 0; n < kOther / 8; ++n)
          top = fmaxf(top, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
        const float before = largest[m][half];
        largest[m][half] = fmaxf(before, scale * top);
        const float reference = largest[m][half] == minus_infinity ? 0.0f : largest[m][half];
        const float rescale = ptx::exp2_fast(before - reference);
        total[m][half] *= rescale;
#pragma unroll
        for (int n = 0; n < kOther / 8; ++n) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            scores[m][n][i] = ptx::exp2_fast(scores[m][n][i] * scale - reference);
            total[m][half] += scores[m][n][i];
          }
        }
#pragma unroll
        for (int n = 0; n < kColumns / 8; ++n) {
          sums[m][n][2 * half] *= rescale;
          sums[m][n][2 * half + 1] *= rescale;
        }
      }
    }
    multiply_add<kM, kOther, kColumns>(sums, scores, values);
  }

  // With a window registers do not hold the item until here: it is looked up once more.
  const WorkItem stored = kWindowed ? item_of(static_cast<unsigned>(ptx::opaque(static_cast<int>(blockIdx.x)))) : item;
  float factor[kM][2];                                                                    // of the sums
  float* before = sft::cuda::shared_memory<float>() + Sizes::kRowsBegin / sizeof(float);  // of earlier out, a row
  finish_rows(factor, before, call, stored, first_row, largest, total);
  __syncthreads();  // keys and values are used
  float* staged = sft::cuda::shared_memory<float>();
  stage_sums<kM, kColumns, kColumns>(staged, warp_row, 0, sums, factor);
  __syncthreads();
  store_staged<kColumns, kThreads>(call.out, staged, stored.begin, stored.count, stored.head, head_dim,
                                   [&](int row) { return before[row]; });
}

template <int kColumns>
void forward(const AttentionForwardCall& call, cudaStream_t stream) {
  using Sizes = ForwardSizes<kColumns>;
  const std::int64_t num_items =
      static_cast<std::int64_t>(call.queries.num_tiles) * (attention_tile_rows / Sizes::kRows) * call.num_heads;
  with_variant(call, [&](auto windowed, auto capped) {
    sft::cuda::launch("attention_forward", forward_kernel<Sizes, decltype(windowed)::value, decltype(capped)::value>,
                      dim3(static_cast<unsigned>(num_items)), dim3(Sizes::kThreads), Sizes::kSharedBytes, stream, call);
  });
}

}  // namespace

void attention_forward_sm80(const AttentionForwardCall& call, cudaStream_t stream) {
  if (call.queries.num_tiles == 0) return;
  if (call.head_dim <= 64) return forward<64>(call, stream);
  if (call.head_dim <= 128) return forward<128>(call, stream);
  forward<256>(call, stream);
}

}  // namespace sft::ops::cuda
