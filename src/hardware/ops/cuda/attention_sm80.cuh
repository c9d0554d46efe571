// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tiles of bf16 rows in shared memory and products of them, for attention_sm80_*.cu.
//
// A tile has rows of kColumns numbers (the head dim, padded with zeros to 64, 128 or 256) in pieces of 8, 16 bytes.
// Piece p of row r stands where piece p ^ (r % 8) would: the same piece of 8 neighbouring rows, which load_matrices
// reads at a time, then lies in different banks.
//
// Legend: lane l of a warp = 4 g + t, see ptx.cuh. Each warp has 16 kM own rows.

#include <cuda_bf16.h>

#include "ops/cuda/attention_blocks.cuh"
#include "ops/cuda/ptx.cuh"

namespace sft::ops::cuda {

using Bf16 = __nv_bfloat16;

template <int kColumns>
__device__ __forceinline__ int tile_offset(int row, int piece) {
  return row * kColumns + (piece ^ (row & 7)) * 8;
}

/// Which row of a (16, 16) part of a tile this lane names to load_matrices: it then gets, as words 0 to 3, its parts of
/// rows 0..7 and 8..15 of the left half, and of the right half.
template <int kColumns>
__device__ __forceinline__ int fragment_offset() {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return tile_offset<kColumns>(lane % 16, lane / 16);
}

/// The same for a part whose transpose is multiplied: words 0 and 1 are of rows 0..7, their left and right half, words
/// 2 and 3 of rows 8..15. What an instruction takes as B then stands in neighbouring registers, where it has to be.
template <int kColumns>
__device__ __forceinline__ int transposed_fragment_offset() {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return tile_offset<kColumns>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
}

/// The offset of the piece that lies `distance` pieces, an even number, behind piece 0 or 1 of the same row, which
/// stands at `offset`: few instructions, and only four different values of the first term.
__device__ __forceinline__ int piece_behind(int offset, int distance) {
  return (offset ^ (distance % 8 * 8)) + distance / 8 * 64;
}

/// Starts to fill a tile with `count` rows of one head from row `first` on; rows and columns behind are zero. By all
/// kThreads threads; it is there after wait_copies and a barrier.
template <int kRows, int kColumns, int kThreads>
__device__ __forceinline__ void load_tile(Bf16* tile, const ConstHeadRows& x, std::int64_t first, int count, int head,
                                          int head_dim) {
  const Bf16* source = static_cast<const Bf16*>(x.data) + first * x.row_stride + head * head_dim;
  const int thread = static_cast<int>(threadIdx.x);
  if (x.is_vector) {
    constexpr int pieces = kColumns / 8, rows_at_once = kThreads / pieces;
    static_assert(kThreads % pieces == 0 && kRows % rows_at_once == 0, "all threads load equally many pieces");
    const int piece = thread % pieces, rows_there = piece * 8 < head_dim ? count : 0;
    int row = thread / pieces;
    const Bf16* from = source + row * x.row_stride + piece * 8;
    Bf16* to = tile + tile_offset<kColumns>(row, piece);
#pragma unroll 2
    for (int i = 0; i < kRows / rows_at_once; ++i) {
      ptx::copy_16_async(to, from, row < rows_there);
      row += rows_at_once;
      from += rows_at_once * x.row_stride;
      to = rows_at_once % 8 == 0 ? to + rows_at_once * kColumns : tile + tile_offset<kColumns>(row, piece);
    }
  } else {
#pragma unroll 1
    for (int i = thread; i < kRows * kColumns; i += kThreads) {
      const int row = i / kColumns, column = i % kColumns;
      const bool is_there = row < count && column < head_dim;
      tile[tile_offset<kColumns>(row, column / 8) + column % 8] =
          is_there ? source[row * x.row_stride + column] : __float2bfloat16(0.0f);
    }
  }
}

template <int kM, int kBlocks>
__device__ __forceinline__ void clear(float (&sums)[kM][kBlocks][4]) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[m][n][i] = 0.0f;
    }
  }
}

/// scores (16 kM, kOther) of this warp = its rows of `own` times the transpose of `other` (kOther rows).
template <int kM, int kOther, int kColumns>
__device__ __forceinline__ void multiply_rows(float (&scores)[kM][kOther / 8][4], const Bf16* own, const Bf16* other) {
  const int own_offset = fragment_offset<kColumns>(), other_offset = transposed_fragment_offset<kColumns>();
  own += static_cast<int>(threadIdx.x) / 32 * 16 * kM * kColumns;
  clear(scores);
#pragma unroll
  for (int k = 0; k < kColumns / 16; ++k) {
    std::uint32_t a[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      ptx::load_matrices(a[m], own + piece_behind(own_offset, 2 * k) + 16 * m * kColumns);
    }
#pragma unroll
    for (int n = 0; n < kOther / 16; ++n) {
      std::uint32_t b[4];
      ptx::load_matrices(b, other + piece_behind(other_offset, 2 * k) + 16 * n * kColumns);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        ptx::mma_m16n8k16(scores[m][2 * n], a[m], b[0], b[1]);
        ptx::mma_m16n8k16(scores[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

/// own = rows [warp_row, warp_row + 16 kM) of a tile, as instructions take them as A.
template <int kM, int kColumns>
__device__ __forceinline__ void load_own(std::uint32_t (&own)[kM][kColumns / 16][4], const Bf16* tile, int warp_row) {
  const int lane_offset = fragment_offset<kColumns>();
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int k = 0; k < kColumns / 16; ++k) {
      ptx::load_matrices(own[m][k], tile + piece_behind(lane_offset, 2 * k) + (warp_row + 16 * m) * kColumns);
    }
  }
}

/// scores (16 kM, kOther) = own (16 kM, kColumns) times the transpose of `other` (kOther rows).
template <int kM, int kOther, int kColumns>
__device__ __forceinline__ void multiply_own(float (&scores)[kM][kOther / 8][4],
                                             const std::uint32_t (&own)[kM][kColumns / 16][4], const Bf16* other) {
  const int lane_offset = ptx::opaque(transposed_fragment_offset<kColumns>());
  clear(scores);
#pragma unroll
  for (int k = 0; k < kColumns / 16; ++k) {
#pragma unroll
    for (int n = 0; n < kOther / 16; ++n) {
      std::uint32_t b[4];
      ptx::load_matrices(b, other + piece_behind(lane_offset, 2 * k) + 16 * n * kColumns);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        ptx::mma_m16n8k16(scores[m][2 * n], own[m][k], b[0], b[1]);
        ptx::mma_m16n8k16(scores[m][2 * n + 1], own[m][k], b[2], b[3]);
      }
    }
  }
}

/// tanh(x) to within 2e-7, where `exponent` is 2 x / ln 2: what a score has of the cap for x = scale product / softcap.
__device__ __forceinline__ float share_of_cap(float exponent) {
  return 1.0f - __fdividef(2.0f, ptx::exp2_fast(exponent) + 1.0f);
}

/// Two floats rounded to bf16, the first in the low half.
__device__ __forceinline__ std::uint32_t packed(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  std::uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

/// Weights (16 kM, 16) rounded to bf16, as instructions take them as A: those of columns 16 k.. of `weights`.
template <int kM, int kOther>
__device__ __forceinline__ void pack_weights(std::uint32_t (&a)[kM][4], const float (&weights)[kM][kOther / 8][4],
                                             int k) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    const auto &left = weights[m][2 * k], &right = weights[m][2 * k + 1];
    a[m][0] = packed(left[0], left[1]);
    a[m][1] = packed(left[2], left[3]);
    a[m][2] = packed(right[0], right[1]);
    a[m][3] = packed(right[2], right[3]);
  }
}

/// sums (16 kM, kOutColumns) += a (16 kM, 16) times 16 rows of a tile; lane_offset: fragment_offset of the first
/// column.
template <int kM, int kColumns, int kOutColumns>
__device__ __forceinline__ void multiply_add_packed(float (&sums)[kM][kOutColumns / 8][4],
                                                    const std::uint32_t (&a)[kM][4], const Bf16* other,
                                                    int lane_offset) {
#pragma unroll
  for (int n = 0; n < kOutColumns / 16; ++n) {
    std::uint32_t b[4];
    ptx::load_matrices_transposed(b, other + piece_behind(lane_offset, 2 * n));
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      ptx::mma_m16n8k16(sums[m][2 * n], a[m], b[0], b[1]);
      ptx::mma_m16n8k16(sums[m][2 * n + 1], a[m], b[2], b[3]);
    }
  }
}

/// sums (16 kM, kColumns) += weights (16 kM, kOther), rounded to bf16, times `other` (kOther rows).
template <int kM, int kOther, int kColumns>
__device__ __forceinline__ void multiply_add(float (&sums)[kM][kColumns / 8][4],
                                             const float (&weights)[kM][kOther / 8][4], const Bf16* other) {
  const int lane_offset = ptx::opaque(fragment_offset<kColumns>());  // registers are scarce
#pragma unroll
  for (int k = 0; k < kOther / 16; ++k) {
    std::uint32_t a[kM][4];
    pack_weights<kM, kOther>(a, weights, k);
    multiply_add_packed<kM, kColumns, kColumns>(sums, a, other + 16 * k * kColumns, lane_offset);
  }
}

/// Where element (row, column) of a staged tile of float32 sums stands: pieces of 8 columns, exchanged so that rows g
/// and g + 1..3 of a warp's sums lie in different banks.
template <int kColumns>
__device__ __forceinline__ int staged_offset(int row, int column) {
  return row * kColumns + ((column / 8) ^ (row & 3)) * 8 + column % 8;
}

/// This thread's part of rows [warp_row, warp_row + 16 kM), from `first_column` on, of a tile = factor of its row *
/// sums.
template <int kM, int kColumns, int kSumColumns>
__device__ __forceinline__ void stage_sums(float* staged, int warp_row, int first_column,
                                           const float (&sums)[kM][kSumColumns / 8][4], const float (&factor)[kM][2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = warp_row + lane / 4;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int n = 0; n < kSumColumns / 8; ++n) {
        const int column = first_column + 8 * n + 2 * (lane % 4);
        const int offset = staged_offset<kColumns>(first_row + 16 * m + 8 * half, column);
        *reinterpret_cast<float2*>(staged + offset) =
            make_float2(factor[m][half] * sums[m][n][2 * half], factor[m][half] * sums[m][n][2 * half + 1]);
      }
    }
  }
}

/// Rows [first, first + count) of one head of `out` = a staged tile of up to kColumns columns
/// [+ before(row) * what a float32 output held where that factor is not 0]. By all kThreads threads, behind a barrier.
template <int kColumns, int kThreads, class Before>
__device__ __forceinline__ void store_staged(const HeadRows& out, const float* staged, std::int64_t first, int count,
                                             int head, int head_dim, Before before) {
  constexpr int pieces = kColumns / 8;
  const std::int64_t origin = first * out.row_stride + head * head_dim;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count * pieces; i += kThreads) {
    const int row = i / pieces, column = i % pieces * 8;
    if (column >= head_dim) continue;
    const float4* from = reinterpret_cast<const float4*>(staged + staged_offset<kColumns>(row, column));
    // Half of each eight lanes reads its second 16 bytes first: of neighbouring pieces the same ones share banks.
    const bool is_late = threadIdx.x % 8 >= 4;
    const float4 one = from[is_late ? 1 : 0], two = from[is_late ? 0 : 1];
    const float4 low = is_late ? two : one, high = is_late ? one : two;
    float value[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    const std::int64_t element = origin + row * out.row_stride + column;
    if (out.is_bf16) {
      Bf16* to = static_cast<Bf16*>(out.data) + element;
      if (out.is_vector) {
        *reinterpret_cast<uint4*>(to) = make_uint4(packed(value[0], value[1]), packed(value[2], value[3]),
                                                   packed(value[4], value[5]), packed(value[6], value[7]));
      } else {
#pragma unroll
        for (int d = 0; d < 8; ++d) {
          if (column + d < head_dim) to[d] = __float2bfloat16(value[d]);
        }
      }
      continue;
    }
    float* to = static_cast<float*>(out.data) + element;
    const float factor = before(row);
    if (out.is_vector) {
#pragma unroll
      for (int d = 0; d < 8; d += 4) {
        if (column + d >= head_dim) continue;
        float4 sum = make_float4(value[d], value[d + 1], value[d + 2], value[d + 3]);
        float4* place = reinterpret_cast<float4*>(to + d);
        if (factor != 0.0f) {
          const float4 held = *place;
          sum = make_float4(sum.x + factor * held.x, sum.y + factor * held.y, sum.z + factor * held.z,
                            sum.w + factor * held.w);
        }
        *place = sum;
      }
    } else {
#pragma unroll
      for (int d = 0; d < 8; ++d) {
        if (column + d < head_dim) to[d] = factor != 0.0f ? value[d] + factor * to[d] : value[d];
      }
    }
  }
}

}  // namespace sft::ops::cuda
