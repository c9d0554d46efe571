// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tiles of bf16 rows in shared memory and products of them by warpgroups, for attention_sm90_*.cu.
//
// A tile has rows of kColumns numbers, 64 or 128 (the head dim, padded with zeros), in panels of 64 columns as
// ptx_sm90.cuh says. A block of threads has two warpgroups with 64 own rows each; warp w of a group has 16 of them.

#include "ops/cuda/attention_sm80.cuh"
#include "ops/cuda/ptx_sm90.cuh"

namespace sft::ops::cuda::sm90 {

inline constexpr int kGroups = 2, kGroupRows = 64, kRows = kGroups * kGroupRows, kThreads = 128 * kGroups;
static_assert(kRows == attention_tile_rows, "a block of threads has a tile of the plan");
inline constexpr int kTileAlignment = 1024;

/// Which warpgroup of the block this thread belongs to. By a shuffle, so that the compiler sees that a warp is of one
/// mind where this decides: products in paths that may diverge run one after the other.
__device__ __forceinline__ int group_of_thread() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
}

/// The first byte of the block's shared memory where a tile may begin: less than kTileAlignment behind the first.
__device__ __forceinline__ Bf16* first_tile() {
  char* begin = sft::cuda::shared_memory<char>();
  return reinterpret_cast<Bf16*>(begin + (-reinterpret_cast<std::uintptr_t>(begin) & (kTileAlignment - 1)));
}

/// Numbers from the first of a tile of kTileRows rows to piece `piece`, 8 numbers, of row `row`.
template <int kTileRows>
__device__ __forceinline__ int tile_offset(int row, int piece) {
  return piece / 8 * (kTileRows * 64) + row * 64 + ((piece ^ row) & 7) * 8;
}

/// Starts to fill a tile with `count` rows of one head from row `first` on; rows and columns behind are zero. By all
/// threads of the block; products read it behind wait_copies, show_to_wgmma and a barrier.
template <int kTileRows, int kColumns>
__device__ __forceinline__ void load_tile(Bf16* tile, const ConstHeadRows& x, std::int64_t first, int count, int head,
                                          int head_dim) {
  const Bf16* source = static_cast<const Bf16*>(x.data) + first * x.row_stride + head * head_dim;
  const int thread = static_cast<int>(threadIdx.x);
  constexpr int pieces = kColumns / 8, rows_at_once = kThreads / pieces;
  static_assert(rows_at_once % 8 == 0 && kTileRows % rows_at_once == 0, "all threads load equally many pieces");
  const int piece = thread % pieces, first_row = thread / pieces;
  Bf16* to = tile + tile_offset<kTileRows>(first_row, piece);
  const Bf16* from = source + first_row * x.row_stride + piece * 8;
  if (x.is_vector) {
    const int rows_there = piece * 8 < head_dim ? count : 0;
#pragma unroll
    for (int row = 0; row < kTileRows; row += rows_at_once) {
      ptx::copy_16_async(to + row * 64, from, first_row + row < rows_there);
      from += rows_at_once * x.row_stride;
    }
  } else {
#pragma unroll 1
    for (int row = 0; row < kTileRows; row += rows_at_once) {
#pragma unroll 1
      for (int i = 0; i < 8; ++i) {
        const bool is_there = first_row + row < count && piece * 8 + i < head_dim;
        to[row * 64 + i] = is_there ? from[i] : __float2bfloat16(0.0f);
      }
      from += rows_at_once * x.row_stride;
    }
  }
}

/// Waits until what this thread has begun to copy is there, and for what the others have: products may read all of it.
__device__ __forceinline__ void wait_for_tiles() {
  ptx::wait_copies<0>();
  ptx::show_to_wgmma();
  __syncthreads();
}

/// Rows of a tile from `first` on, whose panels are panel_bytes apart, as products take them from shared memory
/// ("matrix descriptor" in the PTX ISA). As A (64, 16) or B (kN, 16), the sum going over 16 columns: `first` is where
/// these begin, in a row that is a multiple of 8; panel_bytes is not looked at. Transposed, as B (16, kN), the sum
/// going over 16 rows.
__device__ __forceinline__ std::uint64_t operand(const void* first, int panel_bytes) {
  constexpr std::uint64_t bytes_of_8_rows = 1024, swizzle_of_128_bytes = 1;
  return (ptx::shared_address(first) & 0x3ffffu) >> 4 | static_cast<std::uint64_t>(panel_bytes >> 4) << 16 |
         bytes_of_8_rows >> 4 << 32 | swizzle_of_128_bytes << 62;
}
constexpr int operand_unit = 16;  ///< bytes that an operand moves on by when 1 is added to it

/// What an operand moves on by to columns 16 k and on of a tile of tile_rows rows.
constexpr __device__ __forceinline__ int columns_on(int k, int tile_rows) {
  return (k / 4 * (tile_rows * 128) + k % 4 * 32) / operand_unit;
}

/// Starts scores (64, kOther) = 64 rows of `own` (a tile of kRows, from the first of the group on) times the transpose
/// of `other`.
template <int kOther, int kColumns>
__device__ __forceinline__ void multiply_rows(float (&scores)[kOther / 8][4], const Bf16* own, const Bf16* other) {
  const std::uint64_t a = operand(own, kRows * 128), b = operand(other, kOther * 128);
#pragma unroll
  for (int k = 0; k < kColumns / 16; ++k) {
    ptx::wgmma<false>(scores, a + columns_on(k, kRows), b + columns_on(k, kOther), k > 0);
  }
}

/// own = the 16 rows of this warp of a tile of kRows, as products take them from registers.
template <int kColumns>
__device__ __forceinline__ void load_own(std::uint32_t (&own)[kColumns / 16][4], const Bf16* tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32, row = static_cast<int>(threadIdx.x) / 32 * 16 + lane % 16;
#pragma unroll
  for (int k = 0; k < kColumns / 16; ++k) {
    ptx::load_matrices(own[k], tile + tile_offset<kRows>(row, 2 * k + lane / 16));
  }
}

/// Starts scores (64, kOther) = own (64, kColumns), in registers, times the transpose of `other`.
template <int kOther, int kColumns>
__device__ __forceinline__ void multiply_own(float (&scores)[kOther / 8][4],
                                             const std::uint32_t (&own)[kColumns / 16][4], const Bf16* other) {
  const std::uint64_t b = operand(other, kOther * 128);
#pragma unroll
  for (int k = 0; k < kColumns / 16; ++k) {
    ptx::wgmma<false>(scores, own[k], b + columns_on(k, kOther), k > 0);
  }
}

/// Starts sums (64, kColumns) += weights (64, kOther), in registers, times `other`.
template <int kOther, int kColumns>
__device__ __forceinline__ void multiply_add(float (&sums)[kColumns / 8][4],
                                             const std::uint32_t (&weights)[kOther / 16][4], const Bf16* other) {
  const std::uint64_t b = operand(other, kOther * 128);
  constexpr int units_of_16_rows = 16 * 128 / operand_unit;
#pragma unroll
  for (int k = 0; k < kOther / 16; ++k) ptx::wgmma<true>(sums, weights[k], b + k * units_of_16_rows, true);
}

/// Weights rounded to bf16, as products take them.
template <int kOther>
__device__ __forceinline__ void pack(std::uint32_t (&packed_weights)[kOther / 16][4],
                                     const float (&weights)[kOther / 8][4]) {
#pragma unroll
  for (int k = 0; k < kOther / 16; ++k) {
    const auto &left = weights[2 * k], &right = weights[2 * k + 1];
    packed_weights[k][0] = packed(left[0], left[1]);
    packed_weights[k][1] = packed(left[2], left[3]);
    packed_weights[k][2] = packed(right[0], right[1]);
    packed_weights[k][3] = packed(right[2], right[3]);
  }
}

}  // namespace sft::ops::cuda::sm90
