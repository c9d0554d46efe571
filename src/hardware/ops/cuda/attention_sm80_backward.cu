// SPDX-License-Identifier: Apache-2.0
// Backward pass of bf16 attention (attention_calls.hpp): that of FlashAttention-2 (Dao 2023), in two kernels that each
// own what they write, so that no two blocks of threads add to the same number and the same call gives the same bits
// every time.
//
// Both have "own" rows and go over blocks of "other" rows:
//   scores = own0 other0^T, dprobabilities = own1 other1^T,
//   probabilities = exp(scale scores - lse), dscores = probabilities (dprobabilities - delta),
// or with a softcap c, of shares = tanh(scale scores / c),
//   probabilities = exp(c shares - lse), dscores = probabilities (1 - shares^2) (dprobabilities - delta),
//   sums0 += dscores other0, and for keys sums1 += probabilities other1.
//
// |         | own0 | own1 | other0 | other1 | sums0      | sums1 |
// |---------|------|------|--------|--------|------------|-------|
// | queries | q    | dout | k      | v      | dq / scale |       |
// | keys    | k    | v    | q      | dout   | dk / scale | dv    |
//
// Tiles that both operands of a product are read from would keep shared memory busy for longer than the matrix units: 4
// clocks for a load of 16 x 16 numbers, 1.6 to 2 for a product of 16 x 16 x 8. So warps keep their own rows in
// registers, 32 of them, and each load of other rows feeds four products. Own0, own1 and the sums of 32 rows do not fit
// in the registers of one warp: two warps share the rows. The first holds own0 and has the scores, the second holds
// own1 and has the rest; weights go from one to the other through shared memory, float32 as they are, one block of
// other rows later, so that both wait only at the barrier that each block has anyway. Of which block a warp does
// what in round i:
//
// |         | first warp                    | second warp                           |
// |---------|-------------------------------|---------------------------------------|
// | queries | scores: i; left of dq: i - 2  | dscores: i - 1; right of dq: i - 1    |
// | keys    | scores: i; dv: i              | dscores: i - 1; dk: i - 1             |

#include <new>

#include "ops/cuda/attention_calls.hpp"
#include "ops/cuda/attention_sm80.cuh"
#include "ops/cuda/launch.cuh"

namespace sft::ops::cuda {

namespace {

/// Sizes of the kernels for head dims up to kColumns. Own rows and sums take 192 of the 255 registers of a thread with
/// 128 columns or more (of queries 128), so two blocks of threads share a multiprocessor, and keys form the scores of
/// 16 other rows at a time. Everything fits in the 99 KiB of shared memory that every GPU since 8.0 has; of larger ones
/// two blocks find room in the 164 KiB of a multiprocessor of 8.0.
template <int kColumnsOf, bool kOwnIsQueriesOf>
struct BackwardSizes {
  static constexpr bool kOwnIsQueries = kOwnIsQueriesOf;
  static constexpr int kColumns = kColumnsOf;
  static constexpr int kM = kColumns <= 128 ? 2 : 1, kPairs = 2, kThreads = 64 * kPairs;
  static constexpr int kRows = 16 * kM * kPairs, kOther = kRows / 2;
  static constexpr int kChunk = kOwnIsQueries ? kOther : 16;                   ///< other rows at a time
  static constexpr int kOutColumns = kOwnIsQueries ? kColumns / 2 : kColumns;  ///< of the sums of a warp
  static constexpr int kMinBlocks = kColumns == 64 ? 3 : 2;                    ///< that share a multiprocessor
  /// Rounds that the last sums are behind, and blocks of other0 and other1 that are there at a time.
  static constexpr int kLag = kOwnIsQueries ? 2 : 1, kStages0 = kLag + 2, kStages1 = kOwnIsQueries ? 2 : 3;

  // Shared memory: blocks of other0 and other1; weights of two blocks, from lane to lane; dscores of two blocks of
  // keys, as A; lse and delta of blocks of queries. Before all that own rows, where no first block lies, and behind it
  // the sums.
  static constexpr int kOtherTile = kOther * kColumns;
  static constexpr int kOwn0 = kOtherTile, kOwn1 = (kStages0 + (kOwnIsQueries ? -1 : 1)) * kOtherTile;
  static constexpr int kTilesBytes = (kStages0 + kStages1) * kOtherTile * static_cast<int>(sizeof(Bf16));
  static constexpr int kWeights = kRows * kOther;  ///< of a block
  static constexpr int kWeightsBytes = 2 * kWeights * static_cast<int>(sizeof(float));
  static constexpr int kRestBytes =
      kOwnIsQueries ? kWeightsBytes / 2 : kStages0 * 2 * kOther * static_cast<int>(sizeof(float));
  static constexpr int kWalkBegin = kTilesBytes + kWeightsBytes + kRestBytes, kWalkBytes = 64, kAnnounced = 4;
  static constexpr int kUsedBytes = kWalkBegin + kWalkBytes + kAnnounced * static_cast<int>(sizeof(int4));
  static constexpr int kSumsBytes = (kOwnIsQueries ? 1 : 2) * kRows * kColumns * static_cast<int>(sizeof(float));
  static constexpr std::size_t kSharedBytes = kUsedBytes > kSumsBytes ? kUsedBytes : kSumsBytes;
};

/// The sums of one tile of own rows of one head, a block of threads each; those of keys go over all query heads that
/// share them. Blocks of other rows arrive while those before are used.
///
/// 6 D FLOPs per query head and visible pair for queries and 8 D for keys, 14 D together, where 10 D would do if one
/// kernel did both and added dq from several blocks. From the L2 cache come 4 D bytes per other row for kRows own rows.
template <class Sizes, bool kWindowed, bool kCapped>
__global__ __launch_bounds__(Sizes::kThreads,
                             kCapped ? 2 : Sizes::kMinBlocks) void backward_kernel(const AttentionBackwardCall call) {
  constexpr bool kOwnIsQueries = Sizes::kOwnIsQueries;
  constexpr int kM = Sizes::kM, kColumns = Sizes::kColumns, kOther = Sizes::kOther, kChunk = Sizes::kChunk;
  constexpr int kThreads = Sizes::kThreads, kOtherTile = Sizes::kOtherTile, kOutColumns = Sizes::kOutColumns;
  const AttentionSide& side = kOwnIsQueries ? call.queries : call.keys;
  const int group = call.num_heads / call.num_kv_heads, head_dim = call.head_dim;
  const auto item_of_block = [&] {
    const std::int64_t number = static_cast<unsigned>(ptx::opaque(static_cast<int>(blockIdx.x)));
    return kOwnIsQueries ? work_item<Sizes::kRows>(number, side, call.num_heads, call.heads_at_once)
                         : work_item<Sizes::kRows>(number, side, call.num_kv_heads, call.heads_at_once / group);
  };
  const WorkItem item = item_of_block();
  const bool adds = kOwnIsQueries ? call.adds_to_dq : call.adds_to_dkv;
  if (item.count <= 0 || (adds && item.range_begin == item.range_end)) return;

  Bf16* tiles0 = sft::cuda::shared_memory<Bf16>();
  Bf16* tiles1 = tiles0 + Sizes::kStages0 * kOtherTile;
  float* weights = sft::cuda::shared_memory<float>() + Sizes::kTilesBytes / sizeof(float);
  float* rows = weights + Sizes::kWeightsBytes / sizeof(float);  // of keys: of each stage lse, delta
  uint4* dscores = reinterpret_cast<uint4*>(rows);               // of queries

  // The walk over blocks takes more registers than there are: one thread goes, two rounds ahead, and says where it is.
  using Walk = GroupWalk<kOwnIsQueries, kOther, kWindowed>;
  auto* const walk = reinterpret_cast<Walk*>(sft::cuda::shared_memory<char>() + Sizes::kWalkBegin);
  static_assert(sizeof(Walk) <= Sizes::kWalkBytes);
  auto* const announced =
      reinterpret_cast<int4*>(walk) + Sizes::kWalkBytes / sizeof(int4);  // begin, count, diagonal, head
  const bool walks = threadIdx.x == 32;                                  // second warps have less to do
  const auto announce = [&](unsigned number) {
    const OtherBlock block = walk->is_done() ? OtherBlock{0, 0, 0} : walk->block();
    announced[number % Sizes::kAnnounced] = make_int4(block.begin, block.count, block.diagonal, walk->head());
    if (!walk->is_done()) walk->advance();
  };
  if (walks) {
    const int first_head = kOwnIsQueries ? item.head / group : item.head * group;
    new (walk) Walk(side, item, first_head, kOwnIsQueries ? first_head + 1 : first_head + group);
    announce(0);
    announce(1);
  }
  const auto load = [&](Bf16* tile, const ConstHeadRows& x, const int4& block) {
    load_tile<kOther, kColumns, kThreads>(tile, x, block.x, block.y, block.w, head_dim);
  };
  // All that the first warps want of a block and, of keys, what the second want.
  const auto load_first = [&](int stage, const int4& block) {
    load(tiles0 + stage * kOtherTile, kOwnIsQueries ? call.k : call.q, block);
    if (kOwnIsQueries) return;
    load(tiles1 + stage * kOtherTile, call.dout, block);
    const int row = static_cast<int>(threadIdx.x) % kOther;
    if (threadIdx.x < 2 * kOther) {
      const bool is_lse = static_cast<int>(threadIdx.x) < kOther, is_there = row < block.y;
      const std::int64_t query = block.x + (is_there ? row : 0);
      ptx::copy_4_async(rows + 2 * stage * kOther + static_cast<int>(threadIdx.x),
                        (is_lse ? call.lse : call.delta) + query * call.num_heads + block.w, is_there);
    }
  };

  // This thread's part of rows first_row + 16 m + 8 half of the tile.
  const int lane = static_cast<int>(threadIdx.x) % 32, pair = static_cast<int>(threadIdx.x) / 64;
  const bool is_first = threadIdx.x % 64 < 32;  // of its pair
  const int warp_row = 16 * kM * pair, first_row = warp_row + lane / 4;
  std::uint32_t own[kM][kColumns / 16][4];
  if (item.range_begin != item.range_end) {
    load_tile<Sizes::kRows, kColumns, kThreads>(tiles0 + Sizes::kOwn0, kOwnIsQueries ? call.q : call.k, item.begin,
                                                item.count, item.head, head_dim);
    load_tile<Sizes::kRows, kColumns, kThreads>(tiles0 + Sizes::kOwn1, kOwnIsQueries ? call.dout : call.v, item.begin,
                                                item.count, item.head, head_dim);
    __syncthreads();  // the first blocks are announced
    if (announced[0].y > 0) load_first(0, announced[0]);
    ptx::commit_copies();
    ptx::wait_copies<0>();
    __syncthreads();
    load_own<kM, kColumns>(own, tiles0 + (is_first ? Sizes::kOwn0 : Sizes::kOwn1), warp_row);
  }
  float own_row[kM][2] = {};  // of queries: lse in first warps, delta in second ones
  if (kOwnIsQueries) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + 16 * m + 8 * half;
        if (row >= item.count) continue;
        const float number =
            (is_first ? call.lse
                      : call.delta)[static_cast<std::int64_t>(item.begin + row) * call.num_heads + item.head];
        own_row[m][half] = is_first ? scaled_lse(number) : number;
      }
    }
  }
  float sums[kM][kOutColumns / 8][4] = {};  // of keys: dv in first warps, dk / scale in second ones

  const int first_column = kOwnIsQueries && !is_first ? kOutColumns : 0;
  // Bit j: the block of j rounds before was there; bit 16 + j: rows of this pair meet it. A warp without an own row, or
  // whose rows do not meet the block, has nothing to add.
  unsigned history = 0;
  for (unsigned i = 0; item.range_begin != item.range_end; ++i) {
    ptx::wait_copies<0>();
    __syncthreads();  // what was loaded and written a round before is there, and what it lies on next is used
    const int4 now = announced[i % Sizes::kAnnounced], next = announced[(i + 1) % Sizes::kAnnounced];
    history = history << 1 & 0x7fffu * 0x10001u;
    bool is_masked = false;
    if (now.y > 0) {
      const OtherBlock block = {now.x, now.y, now.z};
      is_masked = is_first && needs_mask<kOwnIsQueries, kWindowed>(block, side.window, Sizes::kRows, kOther);
      const bool meets_any = may_meet<kOwnIsQueries, kWindowed>(block, side.window, warp_row, 16 * kM);
      history |= warp_row < item.count && meets_any ? 0x10001u : 1u;
    }
    if ((history & ((2u << Sizes::kLag) - 1)) == 0) break;
    if (walks) announce(i + 2);
    if (kOwnIsQueries && now.y > 0) load(tiles1 + i % 2 * kOtherTile, call.v, now);
    if (next.y > 0) load_first((i + 1) % Sizes::kStages0, next);
    ptx::commit_copies();

    const unsigned number = is_first ? i : i - 1, number_added = kOwnIsQueries && is_first ? i - 2 : number;
    const bool has_scores = (history >> (16 + i - number) & 1) != 0,
               adds_any = (history >> (16 + i - number_added) & 1) != 0;
    const Bf16* multiplied =
        is_first ? tiles0 + number % Sizes::kStages0 * kOtherTile : tiles1 + number % Sizes::kStages1 * kOtherTile;
    const Bf16* added = !kOwnIsQueries && is_first ? tiles1 + number % Sizes::kStages1 * kOtherTile
                                                   : tiles0 + number_added % Sizes::kStages0 * kOtherTile;
    const float* other_row = rows + (2 * (number % Sizes::kStages0) + (is_first ? 0 : 1)) * kOther;
    // [weights or dscores of a block][pair][chunk][piece][lane]
    constexpr int kPieces = kM * kOther / 8, kFragments = kM * kOther / 16;
    float4* passed = reinterpret_cast<float4*>(weights) + (number % 2 * Sizes::kPairs + pair) * kPieces * 32 + lane;
#pragma unroll 1
    for (int begin = 0; begin < kOther; begin += kChunk) {
      std::uint32_t a[kChunk / 16][kM][4] = {};
      if (has_scores) {
        float scores[kM][kChunk / 8][4];
        multiply_own<kM, kChunk, kColumns>(scores, own, multiplied + begin * kColumns);
        // Computed again, and not kept in registers over the products.
        const int lane_again = ptx::opaque(static_cast<int>(threadIdx.x)) % 32;
        const int own_row_begin = warp_row + lane_again / 4, other_begin = begin + 2 * (lane_again % 4);
        const auto numbers_of = [&](int other) {  // of keys: lse or delta of two neighbours
          return kOwnIsQueries ? float2{} : *reinterpret_cast<const float2*>(other_row + other);
        };
        if (is_first) {
          const int4 at = announced[i % Sizes::kAnnounced];
          const OtherBlock block = {at.x, at.y, at.z};
#pragma unroll
          for (int n = 0; n < kChunk / 8; ++n) {
            const float2 lse = numbers_of(other_begin + 8 * n);
            const float other_lse[2] = {scaled_lse(lse.x), scaled_lse(lse.y)};
#pragma unroll
            for (int m = 0; m < kM; ++m) {
              float passed_on[4];
#pragma unroll
              for (int j = 0; j < 4; ++j) {
                const int row = own_row_begin + 16 * m + 8 * (j / 2), other = other_begin + 8 * n + j % 2;
                float& score = scores[m][n][j];
                float slope = 1.0f;
                if (kCapped) {
                  score = share_of_cap(score * call.exponent_of_share);
                  slope = 1.0f - score * score;
                }
                if (is_masked && !meets<kOwnIsQueries, kWindowed>(block, side.window, row, other)) {
                  score = minus_infinity;
                }
                const float lse_of = kOwnIsQueries ? own_row[m][j / 2] : other_lse[j % 2];
                score = ptx::exp2_fast(score * call.exponent_of_score - lse_of);
                passed_on[j] = kCapped ? score * slope : score;
              }
              *passed = make_float4(passed_on[0], passed_on[1], passed_on[2], passed_on[3]);
              passed += 32;
            }
          }
        } else {
#pragma unroll
          for (int n = 0; n < kChunk / 8; ++n) {
            const float2 delta = numbers_of(other_begin + 8 * n);
            const float other_delta[2] = {delta.x, delta.y};
#pragma unroll
            for (int m = 0; m < kM; ++m) {
              const float4 weight = *passed;
              passed += 32;
              const float factor[4] = {weight.x, weight.y, weight.z, weight.w};
#pragma unroll
              for (int j = 0; j < 4; ++j) {
                scores[m][n][j] =
                    factor[j] * (scores[m][n][j] - (kOwnIsQueries ? own_row[m][j / 2] : other_delta[j % 2]));
              }
            }
          }
        }
        if (!kOwnIsQueries || !is_first) {
#pragma unroll
          for (int k = 0; k < kChunk / 16; ++k) pack_weights<kM, kChunk>(a[k], scores, k);
        }
      }
      if (!adds_any) continue;
      if (kOwnIsQueries) {
        uint4* fragments = dscores + (number_added % 2 * Sizes::kPairs + pair) * kFragments * 32 + lane;
#pragma unroll
        for (int k = 0; k < kChunk / 16; ++k) {
#pragma unroll
          for (int m = 0; m < kM; ++m) {
            uint4& fragment = fragments[(k * kM + m) * 32];
            if (is_first) {
              const uint4 there = fragment;
              a[k][m][0] = there.x;
              a[k][m][1] = there.y;
              a[k][m][2] = there.z;
              a[k][m][3] = there.w;
            } else {
              fragment = make_uint4(a[k][m][0], a[k][m][1], a[k][m][2], a[k][m][3]);
            }
          }
        }
      }
      const int lane_offset = ptx::opaque(piece_behind(fragment_offset<kColumns>(), first_column / 8));
#pragma unroll
      for (int k = 0; k < kChunk / 16; ++k) {
        multiply_add_packed<kM, kColumns, kOutColumns>(sums, a[k], added + (begin + 16 * k) * kColumns, lane_offset);
      }
    }
  }

  __syncthreads();  // what stands in their place is used
  float* staged = sft::cuda::shared_memory<float>();
  float* staged_dv = staged + Sizes::kRows * kColumns;
  const float factor = kOwnIsQueries || !is_first ? call.scale : 1.0f;
  float factors[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) factors[m][0] = factors[m][1] = factor;
  stage_sums<kM, kColumns, kOutColumns>(!kOwnIsQueries && is_first ? staged_dv : staged, warp_row, first_column, sums,
                                        factors);
  __syncthreads();
  const WorkItem stored = item_of_block();  // once more, and not kept in registers until here
  const auto store = [&](const HeadRows& out, const float* sums_of_out) {
    store_staged<kColumns, kThreads>(out, sums_of_out, stored.begin, stored.count, stored.head, head_dim,
                                     [&](int) { return adds ? 1.0f : 0.0f; });
  };
  store(kOwnIsQueries ? call.dq : call.dk, staged);
  if (!kOwnIsQueries) store(call.dv, staged_dv);
}

template <class Sizes>
void launch_side(const char* name, const AttentionBackwardCall& call, const AttentionSide& side, int num_heads,
                 cudaStream_t stream) {
  const std::int64_t num_items =
      static_cast<std::int64_t>(side.num_tiles) * (attention_tile_rows / Sizes::kRows) * num_heads;
  if (num_items == 0) return;
  with_variant(call, [&](auto windowed, auto capped) {
    sft::cuda::launch(name, backward_kernel<Sizes, decltype(windowed)::value, decltype(capped)::value>,
                      dim3(static_cast<unsigned>(num_items)), dim3(Sizes::kThreads), Sizes::kSharedBytes, stream, call);
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
