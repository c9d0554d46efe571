// SPDX-License-Identifier: Apache-2.0
// Backward pass of bf16 attention (attention_calls.hpp) on GPUs of compute capability 9.0: the two kernels of
// attention_sm80_backward.cu, whose table says what own and other rows, operands and sums are, with products of
// warpgroups. Each kernel owns what it writes, so the same call gives the same bits every time.
//
// A group has 64 own rows and goes over blocks of 64 other rows. Scores and dprobabilities are products of tiles in
// shared memory, or of own rows in registers; what becomes of them stays in the registers of the threads that hold them
// and is, as bf16, the first operand of the sums. A group starts the next product before it waits for the last:
//
// | the tensor cores multiply         | while the group turns                    |
// |-----------------------------------|------------------------------------------|
// | dprobabilities                    | scores into probabilities                |
// | of keys: dv                       | dprobabilities into dscores              |
// | dq or dk, then the next scores    | nothing: it goes on to the next block    |

#include <new>

#include "ops/cuda/attention_calls.hpp"
#include "ops/cuda/attention_sm90.cuh"
#include "ops/cuda/launch.cuh"

namespace sft::ops::cuda {

namespace {

using namespace sm90;

template <int kColumnsOf, bool kOwnIsQueriesOf, bool kWindowedOf>
struct BackwardSizes {
  static constexpr int kColumns = kColumnsOf, kOther = 64, kStages = 3;
  static constexpr bool kOwnIsQueries = kOwnIsQueriesOf, kWindowed = kWindowedOf;
  using Walk = GroupWalk<kOwnIsQueries, kOther, kWindowed>;

  // Shared memory: two tiles of own rows and, of three blocks, two of other rows; in their place the sums at the end.
  // Of keys lse and delta of the blocks. The walk and the blocks it has announced.
  static constexpr int kOwnTile = kRows * kColumns, kOtherTile = kOther * kColumns;
  static constexpr int kTileBytes = (2 * kOwnTile + 2 * kStages * kOtherTile) * static_cast<int>(sizeof(Bf16));
  static_assert(kTileBytes >= 2 * kRows * kColumns * static_cast<int>(sizeof(float)));
  static constexpr int kRowsBytes = kOwnIsQueries ? 0 : kStages * 2 * kOther * static_cast<int>(sizeof(float));
  static constexpr int kAnnounced = 4, kWalkBytes = 64;
  static_assert(sizeof(Walk) <= kWalkBytes);
  static constexpr std::size_t kSharedBytes =
      kTileAlignment + kTileBytes + kRowsBytes + kAnnounced * sizeof(int4) + kWalkBytes;
};

/// The sums of one tile of own rows of one head, a block of threads each; those of keys go over all query heads that
/// share them.
///
/// 6 D FLOPs per query head and visible pair for queries and 8 D for keys, and what the blocks at the diagonal have
/// beyond it. Of other rows 4 D bytes each come from the L2 cache for 128 own rows.
template <class Sizes>
__global__ __launch_bounds__(kThreads, 1) void backward_kernel(const AttentionBackwardCall call) {
  constexpr bool kOwnIsQueries = Sizes::kOwnIsQueries, kWindowed = Sizes::kWindowed;
  constexpr int kColumns = Sizes::kColumns, kOther = Sizes::kOther, kStages = Sizes::kStages;
  const AttentionSide& side = kOwnIsQueries ? call.queries : call.keys;
  const int group = call.num_heads / call.num_kv_heads, head_dim = call.head_dim;
  const auto item_of_block = [&] {
    const std::int64_t number = static_cast<unsigned>(ptx::opaque(static_cast<int>(blockIdx.x)));
    return kOwnIsQueries ? work_item<kRows>(number, side, call.num_heads, call.heads_at_once)
                         : work_item<kRows>(number, side, call.num_kv_heads, call.heads_at_once / group);
  };
  const WorkItem item = item_of_block();
  const bool adds = kOwnIsQueries ? call.adds_to_dq : call.adds_to_dkv, meets_any = item.range_begin != item.range_end;
  if (item.count <= 0 || (adds && !meets_any)) return;

  Bf16* const own0 = first_tile();
  Bf16* const own1 = own0 + Sizes::kOwnTile;
  Bf16* const others = own1 + Sizes::kOwnTile;  // of each stage other0, other1
  float* const rows = reinterpret_cast<float*>(own0) + Sizes::kTileBytes / sizeof(float);  // of each stage lse, delta
  int4* const announced = reinterpret_cast<int4*>(rows + Sizes::kRowsBytes / sizeof(float));

  // The walk over blocks takes more registers than there are: one thread goes, two blocks ahead, and says where it is:
  // begin, count, diagonal, head.
  using Walk = typename Sizes::Walk;
  auto* const walk = reinterpret_cast<Walk*>(announced + Sizes::kAnnounced);
  const bool walks = threadIdx.x == 0;
  const auto announce = [&](unsigned number) {
    const OtherBlock block = walk->is_done() ? OtherBlock{0, 0, 0} : walk->block();
    announced[number % Sizes::kAnnounced] = make_int4(block.begin, block.count, block.diagonal, walk->head());
    if (!walk->is_done()) walk->advance();
  };
  const auto load = [&](unsigned number, const int4& block) {
    const unsigned stage = number % kStages;
    Bf16* const other0 = others + stage * 2 * Sizes::kOtherTile;
    load_tile<kOther, kColumns>(other0, kOwnIsQueries ? call.k : call.q, block.x, block.y, block.w, head_dim);
    load_tile<kOther, kColumns>(other0 + Sizes::kOtherTile, kOwnIsQueries ? call.v : call.dout, block.x, block.y,
                                block.w, head_dim);
    if (!kOwnIsQueries && threadIdx.x < 2 * kOther) {
      const int thread = static_cast<int>(threadIdx.x), row = thread % kOther;
      const bool is_there = row < block.y;
      const std::int64_t query = block.x + (is_there ? row : 0);
      ptx::copy_4_async(rows + 2 * stage * kOther + thread,
                        (thread < kOther ? call.lse : call.delta) + query * call.num_heads + block.w, is_there);
    }
  };

  // This thread's part of rows first_row + 8 half of the tile.
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int first_row = warp_row + static_cast<int>(threadIdx.x) % 32 / 4;
  float sums0[1][kColumns / 8][4] = {}, sums1[1][kOwnIsQueries ? 1 : kColumns / 8][4] = {};
  if (meets_any) {
    if (walks) {
      const int first_head = kOwnIsQueries ? item.head / group : item.head * group;
      new (walk) Walk(side, item, first_head, kOwnIsQueries ? first_head + 1 : first_head + group);
      announce(0);
      announce(1);
    }
    load_tile<kRows, kColumns>(own0, kOwnIsQueries ? call.q : call.k, item.begin, item.count, item.head, head_dim);
    load_tile<kRows, kColumns>(own1, kOwnIsQueries ? call.dout : call.v, item.begin, item.count, item.head, head_dim);
    __syncthreads();  // the first blocks are announced
    if (announced[0].y > 0) load(0, announced[0]);
    ptx::commit_copies();
    float own_lse[2] = {}, own_delta[2] = {};  // of queries
    if (kOwnIsQueries) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + 8 * half;
        if (row >= item.count) continue;
        const std::int64_t place = static_cast<std::int64_t>(item.begin + row) * call.num_heads + item.head;
        own_lse[half] = scaled_lse(call.lse[place]);
        own_delta[half] = call.delta[place];
      }
    }
    const Bf16* const own_of_group = own0 + group_of_thread() * kGroupRows * 64;
    // Registers have room for queries and dout: what is read from shared memory for products then takes two thirds of
    // their time, and all of it otherwise.
    [[maybe_unused]] std::uint32_t own[2][kColumns / 16][4];
    if constexpr (kOwnIsQueries) {
      wait_for_tiles();
      load_own<kColumns>(own[0], own0);
      load_own<kColumns>(own[1], own1);
    }
    float scores[kOther / 8][4], dscores[kOther / 8][4];
    [[maybe_unused]] std::uint32_t weights[kOther / 16][4];
    std::uint32_t dweights[kOther / 16][4];

    for (unsigned i = 0;; ++i) {
      wait_for_tiles();  // block i is there, and all sums of blocks before the last are done
      const int4 now = announced[i % Sizes::kAnnounced], next = announced[(i + 1) % Sizes::kAnnounced];
      if (now.y == 0) break;
      if (walks) announce(i + 2);
      if (next.y > 0) load(i + 1, next);
      ptx::commit_copies();
      const Bf16* const other0 = others + i % kStages * 2 * Sizes::kOtherTile;
      const Bf16* const other1 = other0 + Sizes::kOtherTile;
      const float* const other_lse = rows + 2 * (i % kStages) * kOther;
      if constexpr (kOwnIsQueries) {
        ptx::wgmma_begin();
        multiply_own<kOther, kColumns>(scores, own[0], other0);
        ptx::wgmma_commit();
        multiply_own<kOther, kColumns>(dscores, own[1], other1);
      } else {
        ptx::wgmma_begin();
        multiply_rows<kOther, kColumns>(scores, own_of_group, other0);
        ptx::wgmma_commit();
        multiply_rows<kOther, kColumns>(dscores, own_of_group + Sizes::kOwnTile, other1);
      }
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();  // the sums of the last block, and the scores
      ptx::hold_sums(sums0[0]);
      if (!kOwnIsQueries) ptx::hold_sums(sums1[0]);
      ptx::hold_sums(scores);
      const OtherBlock block = {now.x, now.y, now.z};
      const bool is_masked = needs_mask<kOwnIsQueries, kWindowed>(block, side.window, kRows, kOther);
      const int first_other = 2 * (static_cast<int>(threadIdx.x) % 4);
#pragma unroll
      for (int n = 0; n < kOther / 8; ++n) {
        float2 lse = {};
        if (!kOwnIsQueries) lse = *reinterpret_cast<const float2*>(other_lse + first_other + 8 * n);
        const float lse_of_other[2] = {scaled_lse(lse.x), scaled_lse(lse.y)};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int row = first_row + 8 * (j / 2), other = first_other + 8 * n + j % 2;
          float& score = scores[n][j];
          if (is_masked && !meets<kOwnIsQueries, kWindowed>(block, side.window, row, other)) score = minus_infinity;
          score =
              ptx::exp2_fast(score * call.exponent_of_score - (kOwnIsQueries ? own_lse[j / 2] : lse_of_other[j % 2]));
        }
      }
      if constexpr (!kOwnIsQueries) {
        pack<kOther>(weights, scores);
        ptx::wgmma_begin();
        multiply_add<kOther, kColumns>(sums1[0], weights, other1);
        ptx::wgmma_commit();
      }
      ptx::wgmma_wait<kOwnIsQueries ? 0 : 1>();  // dprobabilities
      ptx::hold_sums(dscores);
#pragma unroll
      for (int n = 0; n < kOther / 8; ++n) {
        float2 delta = {};
        if (!kOwnIsQueries) delta = *reinterpret_cast<const float2*>(other_lse + kOther + first_other + 8 * n);
        const float delta_of_other[2] = {delta.x, delta.y};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          dscores[n][j] = scores[n][j] * (dscores[n][j] - (kOwnIsQueries ? own_delta[j / 2] : delta_of_other[j % 2]));
        }
      }
      pack<kOther>(dweights, dscores);
      ptx::wgmma_begin();
      multiply_add<kOther, kColumns>(sums0[0], dweights, other0);
      ptx::wgmma_commit();
    }
    ptx::wgmma_wait<0>();
    ptx::hold_sums(sums0[0]);
    if (!kOwnIsQueries) ptx::hold_sums(sums1[0]);
  }

  __syncthreads();  // all products are done
  float* const staged = reinterpret_cast<float*>(own0);
  const float factors[1][2] = {{call.scale, call.scale}}, ones[1][2] = {{1.0f, 1.0f}};
  stage_sums<1, kColumns, kColumns>(staged, warp_row, 0, sums0, factors);
  if constexpr (!kOwnIsQueries) {
    stage_sums<1, kColumns, kColumns>(staged + kRows * kColumns, warp_row, 0, sums1, ones);
  }
  __syncthreads();
  const WorkItem stored = item_of_block();  // once more, and not kept in registers until here
  const auto store = [&](const HeadRows& out, const float* sums) {
    store_staged<kColumns, kThreads>(out, sums, stored.begin, stored.count, stored.head, head_dim,
                                     [&](int) { return adds ? 1.0f : 0.0f; });
  };
  store(kOwnIsQueries ? call.dq : call.dk, staged);
  if (!kOwnIsQueries) store(call.dv, staged + kRows * kColumns);
}

template <class Sizes>
void launch_side(const char* name, const AttentionBackwardCall& call, std::int64_t num_items, cudaStream_t stream) {
  if (num_items == 0) return;
  sft::cuda::launch(name, backward_kernel<Sizes>, dim3(static_cast<unsigned>(num_items)), dim3(kThreads),
                    Sizes::kSharedBytes, stream, call);
}

template <int kColumns, bool kWindowed>
void backward(const AttentionBackwardCall& call, cudaStream_t stream) {
  launch_side<BackwardSizes<kColumns, false, kWindowed>>("attention_backward_keys", call,
                                                         std::int64_t{call.keys.num_tiles} * call.num_kv_heads, stream);
  launch_side<BackwardSizes<kColumns, true, kWindowed>>("attention_backward_queries", call,
                                                        std::int64_t{call.queries.num_tiles} * call.num_heads, stream);
}

}  // namespace

template <>
void attention_backward_of<90>(const AttentionBackwardCall& call, cudaStream_t stream) {
  const bool is_windowed = call.queries.window > 0;
  if (call.head_dim <= 64) return is_windowed ? backward<64, true>(call, stream) : backward<64, false>(call, stream);
  is_windowed ? backward<128, true>(call, stream) : backward<128, false>(call, stream);
}

}  // namespace sft::ops::cuda
