// SPDX-License-Identifier: Apache-2.0
// Forward pass of bf16 attention (attention_calls.hpp) on GPUs of compute capability 9.0: that of FlashAttention-2 (Dao
// 2023), whose products warpgroups start and do not wait for, as in FlashAttention-3 (Shah et al. 2024): while the
// tensor cores multiply the weights of one block of keys with its values, the warps turn the scores of the next into
// weights.

#include "ops/cuda/attention_calls.hpp"
#include "ops/cuda/attention_results.cuh"
#include "ops/cuda/attention_sm90.cuh"
#include "ops/cuda/launch.cuh"

namespace sft::ops::cuda {

namespace {

using namespace sm90;

template <int kColumnsOf>
struct ForwardSizes {
  static constexpr int kColumns = kColumnsOf, kOther = 128;
  static constexpr int kOwnTile = kRows * kColumns, kOtherTile = kOther * kColumns;
  /// Queries, two blocks of keys and two of values; in place of queries and keys the result. Behind them a factor for
  /// each row.
  static constexpr int kTileBytes = (kOwnTile + 4 * kOtherTile) * static_cast<int>(sizeof(Bf16));
  static_assert((kOwnTile + 2 * kOtherTile) * sizeof(Bf16) >= kRows * kColumns * sizeof(float));
  static constexpr std::size_t kSharedBytes = kTileAlignment + kTileBytes + kRows * sizeof(float);
};

/// out and lse of one query tile of one head, a block of threads each. In round i the scores of block i of the keys are
/// formed while block i - 1 of the values is multiplied, and what the next round wants arrives.
///
/// 4 D FLOPs per head and visible pair of query and key, and what the blocks at the diagonal have beyond it. Keys and
/// values come once for 128 queries, from the L2 cache where those of heads_at_once heads fit.
template <int kColumns, bool kWindowed>
__global__ __launch_bounds__(kThreads, 1) void forward_kernel(const AttentionForwardCall call) {
  using Sizes = ForwardSizes<kColumns>;
  constexpr int kOther = Sizes::kOther;
  const WorkItem item = work_item<kRows>(blockIdx.x, call.queries, call.num_heads, call.heads_at_once);
  if (item.count <= 0 || (call.merges && item.range_begin == item.range_end)) return;
  const int head_dim = call.head_dim, kv_head = item.head / (call.num_heads / call.num_kv_heads);
  Bf16* const queries = first_tile();
  Bf16* const keys = queries + Sizes::kOwnTile;
  Bf16* const values = keys + 2 * Sizes::kOtherTile;
  const auto load = [&](Bf16* tiles, unsigned number, const ConstHeadRows& x, const OtherBlock& block) {
    load_tile<kOther, kColumns>(tiles + number % 2 * Sizes::kOtherTile, x, block.begin, block.count, kv_head, head_dim);
  };
  const int window = call.queries.window;
  BlockWalk<true, kOther, kWindowed> walk(call.queries, item);
  const auto next_block = [&] {
    if (walk.is_done()) return OtherBlock{0, 0, 0};
    const OtherBlock block = walk.block();
    walk.advance();
    return block;
  };
  OtherBlock now = next_block(), next = next_block();
  if (now.count > 0) {
    load_tile<kRows, kColumns>(queries, call.q, item.begin, item.count, item.head, head_dim);
    load(keys, 0, call.k, now);
  }
  ptx::commit_copies();

  // This thread's part of rows first_row + 8 half of the tile.
  const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16, first_row = warp_row + lane / 4;
  const Bf16* const own = queries + group_of_thread() * kGroupRows * 64;
  float sums[1][kColumns / 8][4] = {}, scores[kOther / 8][4];
  float largest[1][2] = {{minus_infinity, minus_infinity}}, total[1][2] = {};  // as in attention_sm80_forward.cu
  const float scale = call.scale * log2_of_e;
  // Scores of a block become weights; rescale: what the sums of the rows are to be multiplied with.
  const auto weigh = [&](const OtherBlock& block, float(&rescale)[2]) {
    if (needs_mask<true, kWindowed>(block, window, kRows, kOther)) {
#pragma unroll
      for (int n = 0; n < kOther / 8; ++n) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int row = first_row + 8 * (j / 2), other = 8 * n + 2 * t + j % 2;
          if (!meets<true, kWindowed>(block, window, row, other)) scores[n][j] = minus_infinity;
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = minus_infinity;
#pragma unroll
      for (int n = 0; n < kOther / 8; ++n) top = fmaxf(top, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      const float before = largest[0][half];
      largest[0][half] = fmaxf(before, scale * top);
      const float reference = largest[0][half] == minus_infinity ? 0.0f : largest[0][half];
      rescale[half] = ptx::exp2_fast(before - reference);
      total[0][half] *= rescale[half];
#pragma unroll
      for (int n = 0; n < kOther / 8; ++n) {
#pragma unroll
        for (int j = 2 * half; j < 2 * half + 2; ++j) {
          scores[n][j] = ptx::exp2_fast(scores[n][j] * scale - reference);
          total[0][half] += scores[n][j];
        }
      }
    }
  };

  if (now.count > 0) {
    float rescale[2];
    std::uint32_t weights[kOther / 16][4];
    wait_for_tiles();  // queries and the first keys
    if (next.count > 0) load(keys, 1, call.k, next);
    load(values, 0, call.v, now);
    ptx::commit_copies();
    ptx::wgmma_begin();
    multiply_rows<kOther, kColumns>(scores, own, keys);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::hold_sums(scores);
    weigh(now, rescale);
    pack<kOther>(weights, scores);
    unsigned i = 0;
    for (; next.count > 0; ++i) {
      now = next;
      next = next_block();
      wait_for_tiles();  // the values of block i and the keys of block i + 1; those before are used
      if (next.count > 0) load(keys, i, call.k, next);
      load(values, i + 1, call.v, now);
      ptx::commit_copies();
      ptx::wgmma_begin();
      multiply_rows<kOther, kColumns>(scores, own, keys + (i + 1) % 2 * Sizes::kOtherTile);
      ptx::wgmma_commit();
      multiply_add<kOther, kColumns>(sums[0], weights, values + i % 2 * Sizes::kOtherTile);
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();
      ptx::hold_sums(scores);
      weigh(now, rescale);
      ptx::wgmma_wait<0>();
      ptx::hold_sums(sums[0]);
      pack<kOther>(weights, scores);
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[0][n][j] *= rescale[j / 2];
      }
    }
    wait_for_tiles();  // the last values
    ptx::wgmma_begin();
    multiply_add<kOther, kColumns>(sums[0], weights, values + i % 2 * Sizes::kOtherTile);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::hold_sums(sums[0]);
  }

  float factor[1][2];
  float* const before = reinterpret_cast<float*>(queries) + Sizes::kTileBytes / sizeof(float);
  finish_rows(factor, before, call, item, first_row, largest, total);
  float* const staged =
      reinterpret_cast<float*>(queries);  // and of keys, which all have used before the last values came
  stage_sums<1, kColumns, kColumns>(staged, warp_row, 0, sums, factor);
  __syncthreads();
  store_staged<kColumns, kThreads>(call.out, staged, item.begin, item.count, item.head, head_dim,
                                   [&](int row) { return before[row]; });
}

template <int kColumns>
void forward(const AttentionForwardCall& call, cudaStream_t stream) {
  const auto num_items = static_cast<unsigned>(std::int64_t{call.queries.num_tiles} * call.num_heads);
  const auto run = [&](auto kernel) {
    sft::cuda::launch("attention_forward", kernel, dim3(num_items), dim3(kThreads),
                      ForwardSizes<kColumns>::kSharedBytes, stream, call);
  };
  if (call.queries.window > 0) return run(forward_kernel<kColumns, true>);
  run(forward_kernel<kColumns, false>);
}

}  // namespace

template <>
void attention_forward_of<90>(const AttentionForwardCall& call, cudaStream_t stream) {
  if (call.queries.num_tiles == 0) return;
  if (call.head_dim <= 64) return forward<64>(call, stream);
  forward<128>(call, stream);
}

}  // namespace sft::ops::cuda
