// SPDX-License-Identifier: Apache-2.0
// Backward pass of bf16 attention (attention_calls.hpp): that of FlashAttention-2 (Dao 2023), in two kernels that each
// own what they write, so that no two blocks of threads add to the same number and the same call gives the same bits
// every time.
//
// Both have "own" rows, which stay in shared memory, and go over blocks of "other" rows:
//   scores = own0 other0^T, dprobabilities = own1 other1^T,
//   probabilities = exp(scale scores - lse), dscores = probabilities (dprobabilities - delta),
// or with a softcap c, of shares = tanh(scale scores / c),
//   probabilities = exp(c shares - lse), dscores = probabilities (dprobabilities - delta) (1 - shares^2),
//   sums0 += dscores other0, and for keys sums1 += probabilities other1.
//
// |         | own0 | own1 | other0 | other1 | sums0      | sums1 |
// |---------|------|------|--------|--------|------------|-------|
// | queries | q    | dout | k      | v      | dq / scale |       |
// | keys    | k    | v    | q      | dout   | dk / scale | dv    |

#include "ops/cuda/attention_sm80.cuh"
#include "ops/cuda/attention_calls.hpp"
#include "ops/cuda/launch.cuh"

namespace sft::ops::cuda {

namespace {

/// Sizes of the kernels for head dims up to kColumns: two pairs of blocks of other rows, one in use and one under way,
/// fit beside the own rows in the 99 KiB that every GPU since 8.0 has. Keys with 256 columns write half of them a
/// block, since the registers of a warp do not hold the sums of all; each half forms the scores again.
template <int kColumnsOf, bool kOwnIsQueriesOf>
struct BackwardSizes {
  static constexpr bool kOwnIsQueries = kOwnIsQueriesOf;
  static constexpr int kColumns = kColumnsOf;
  static constexpr int kOutColumns = kOwnIsQueries || kColumns <= 128 ? kColumns : 128;
  static constexpr int kWarps = 4, kThreads = 32 * kWarps;
  static constexpr int kRows = 16 * kWarps, kOther = 4096 / kColumns;
  static constexpr int kMinBlocks = kColumns <= 128 ? 2 : 1;  ///< that share a multiprocessor
  static constexpr int kTile = kRows * kColumns, kOtherTile = kOther * kColumns;
  static constexpr std::size_t kRowBytes = kOwnIsQueries ? 0 : 4 * kOther * sizeof(float);  ///< lse and delta
  static constexpr std::size_t kSharedBytes = (2 * kTile + 4 * kOtherTile) * sizeof(Bf16) + kRowBytes;
};

/// In units of ln 2; such that queries without any key get probabilities of 0.
__device__ __forceinline__ float scaled_lse(float lse) {
  return lse == minus_infinity ? -minus_infinity : lse * log2_of_e;
}

/// The sums of one tile of own rows of one head, a block of threads each; those of keys go over all query heads that
/// share them. Blocks of other rows arrive while those before are used.
///
/// 6 D FLOPs per query head and visible pair for queries and 8 D for keys, 14 D together, where 10 D would do if one
/// kernel did both and added dq from several blocks. From the L2 cache come 4 D bytes per other row for 64 own rows.
template <class Sizes, bool kWindowed, bool kCapped>
__global__ __launch_bounds__(Sizes::kThreads,
                             Sizes::kMinBlocks) void backward_kernel(const AttentionBackwardCall call) {
  constexpr bool kOwnIsQueries = Sizes::kOwnIsQueries;
  constexpr int kColumns = Sizes::kColumns, kOther = Sizes::kOther, kThreads = Sizes::kThreads;
  constexpr int kOutColumns = Sizes::kOutColumns;
  const AttentionSide& side = kOwnIsQueries ? call.queries : call.keys;
  const int group = call.num_heads / call.num_kv_heads, head_dim = call.head_dim;
  const WorkItem item = kOwnIsQueries
                            ? work_item<Sizes::kRows>(blockIdx.x, side, call.num_heads, call.heads_at_once)
                            : work_item<Sizes::kRows>(blockIdx.x, side, call.num_kv_heads, call.heads_at_once / group);
  const bool adds = kOwnIsQueries ? call.adds_to_dq : call.adds_to_dkv;
  const int first_column = static_cast<int>(blockIdx.y) * kOutColumns;
  if (item.count <= 0 || first_column >= head_dim || (adds && item.range_begin == item.range_end)) return;

  Bf16* own0 = sft::cuda::shared_memory<Bf16>();
  Bf16* own1 = own0 + Sizes::kTile;
  Bf16* others = own1 + Sizes::kTile;  // of stage 0: other0, other1; of stage 1
  float* rows =
      reinterpret_cast<float*>(others + 4 * Sizes::kOtherTile);  // of keys: of stage 0: lse, delta; of stage 1

  const int first_head = kOwnIsQueries ? item.head / group : item.head * group;
  GroupWalk<kOwnIsQueries, kOther, kWindowed> walk(side, item, first_head,
                                                   kOwnIsQueries ? first_head + 1 : first_head + group);
  const auto load = [&](int stage) {
    const OtherBlock block = walk.block();
    Bf16* other0 = others + 2 * stage * Sizes::kOtherTile;
    load_tile<kOther, kColumns, kThreads>(other0, kOwnIsQueries ? call.k : call.q, block.begin, block.count,
                                          walk.head(), head_dim);
    load_tile<kOther, kColumns, kThreads>(other0 + Sizes::kOtherTile, kOwnIsQueries ? call.v : call.dout, block.begin,
                                          block.count, walk.head(), head_dim);
    const int row = static_cast<int>(threadIdx.x) % kOther;
    if (!kOwnIsQueries && threadIdx.x < 2 * kOther) {
      const bool is_lse = static_cast<int>(threadIdx.x) < kOther, is_there = row < block.count;
      const std::int64_t query = block.begin + (is_there ? row : 0);
      ptx::copy_4_async(rows + 2 * stage * kOther + static_cast<int>(threadIdx.x),
                        (is_lse ? call.lse : call.delta) + query * call.num_heads + walk.head(), is_there);
    }
    ptx::commit_copies();
  };
  if (!walk.is_done()) {
    load_tile<Sizes::kRows, kColumns, kThreads>(own0, kOwnIsQueries ? call.q : call.k, item.begin, item.count,
                                                item.head, head_dim);
    load_tile<Sizes::kRows, kColumns, kThreads>(own1, kOwnIsQueries ? call.dout : call.v, item.begin, item.count,
                                                item.head, head_dim);
    load(0);
  }

  // This thread's part of rows first_row and first_row + 8 of the tile.
  const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16, first_row = warp_row + lane / 4;
  float own_lse[2] = {}, own_delta[2] = {};
  if (kOwnIsQueries) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + 8 * half;
      if (row >= item.count) continue;
      const std::int64_t index = static_cast<std::int64_t>(item.begin + row) * call.num_heads + item.head;
      own_lse[half] = scaled_lse(call.lse[index]);
      own_delta[half] = call.delta[index];
    }
  }
  float sums0[1][kOutColumns / 8][4] = {}, sums1[1][kOutColumns / 8][4] = {};  // sums1 of keys alone

  const float scale = (kCapped ? call.softcap : call.scale) * log2_of_e;
  for (int stage = 0; !walk.is_done(); stage ^= 1) {
    const OtherBlock block = walk.block();
    walk.advance();
    ptx::wait_copies<0>();
    __syncthreads();  // this stage is there, and the other one is used
    if (!walk.is_done()) load(stage ^ 1);
    const Bf16* other0 = others + 2 * stage * Sizes::kOtherTile;
    const Bf16* other1 = other0 + Sizes::kOtherTile;
    const float* other_lse = rows + 2 * stage * kOther;
    // A warp without an own row, or whose rows do not meet the block, has nothing to add.
    const bool meets_any = may_meet<kOwnIsQueries, kWindowed>(block, side.window, warp_row, 16);
    if (warp_row >= item.count || !meets_any) continue;
    float probabilities[1][kOther / 8][4], dscores[1][kOther / 8][4];
    multiply_rows<1, kOther, kColumns>(probabilities, own0, other0);
    multiply_rows<1, kOther, kColumns>(dscores, own1, other1);
    if (kCapped) {
#pragma unroll
      for (int n = 0; n < kOther / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float delta = kOwnIsQueries ? own_delta[i / 2] : other_lse[kOther + 8 * n + 2 * t + i % 2];
          const float share = share_of_cap(probabilities[0][n][i], call);
          probabilities[0][n][i] = share;
          dscores[0][n][i] = (dscores[0][n][i] - delta) * (1.0f - share * share);
        }
      }
    }
    if (needs_mask<kOwnIsQueries, kWindowed>(block, side.window, Sizes::kRows, kOther)) {
#pragma unroll
      for (int n = 0; n < kOther / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = first_row + 8 * (i / 2), other = 8 * n + 2 * t + i % 2;
          if (!meets<kOwnIsQueries, kWindowed>(block, side.window, row, other)) {
            probabilities[0][n][i] = minus_infinity;
          }
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kOther / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int other = 8 * n + 2 * t + i % 2;
        const float lse = kOwnIsQueries ? own_lse[i / 2] : scaled_lse(other_lse[other]);
        const float delta = kOwnIsQueries ? own_delta[i / 2] : other_lse[kOther + other];
        float& probability = probabilities[0][n][i];
        probability = ptx::exp2_fast(probability * scale - lse);
        dscores[0][n][i] = probability * (kCapped ? dscores[0][n][i] : dscores[0][n][i] - delta);
      }
    }
    if (!kOwnIsQueries) {
      multiply_add<1, kOther, kColumns, kOutColumns>(sums1, probabilities, other1, first_column);
    }
    multiply_add<1, kOther, kColumns, kOutColumns>(sums0, dscores, other0, first_column);
  }

  float* staged = sft::cuda::shared_memory<float>();
  const auto store = [&](const HeadRows& out, const float(&sums)[1][kOutColumns / 8][4], float factor) {
    __syncthreads();  // what stands in its place is used
    stage_sums<1, kOutColumns>(staged, sums, {{factor, factor}});
    __syncthreads();
    store_staged<kOutColumns, kThreads>(out, staged, item.begin, item.count, item.head, head_dim, first_column,
                                        [&](int) { return adds ? 1.0f : 0.0f; });
  };
  store(kOwnIsQueries ? call.dq : call.dk, sums0, call.scale);
  if (!kOwnIsQueries) store(call.dv, sums1, 1.0f);
}

template <class Sizes>
void launch_side(const char* name, const AttentionBackwardCall& call, const AttentionSide& side, int num_heads,
                 cudaStream_t stream) {
  const std::int64_t num_items =
      static_cast<std::int64_t>(side.num_tiles) * (attention_tile_rows / Sizes::kRows) * num_heads;
  if (num_items == 0) return;
  with_variant(call, [&](auto windowed, auto capped) {
    sft::cuda::launch(name, backward_kernel<Sizes, decltype(windowed)::value, decltype(capped)::value>,
                      dim3(static_cast<unsigned>(num_items), Sizes::kColumns / Sizes::kOutColumns),
                      dim3(Sizes::kThreads), Sizes::kSharedBytes, stream, call);
  });
}

template <int kColumns>
void backward(const AttentionBackwardCall& call, cudaStream_t stream) {
  launch_side<BackwardSizes<kColumns, false>>("attention_backward_keys", call, call.keys, call.num_kv_heads, stream);
  launch_side<BackwardSizes<kColumns, true>>("attention_backward_queries", call, call.queries, call.num_heads, stream);
}

}  // namespace

void attention_backward_sm80(const AttentionBackwardCall& call, cudaStream_t stream) {
  if (call.head_dim <= 64) return backward<64>(call, stream);
  if (call.head_dim <= 128) return backward<128>(call, stream);
  backward<256>(call, stream);
}

}  // namespace sft::ops::cuda
