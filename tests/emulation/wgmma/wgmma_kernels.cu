// SPDX-License-Identifier: Apache-2.0
#include "wgmma/wgmma_kernels.hpp"

#include "ops/cuda/attention_sm90.cuh"
#include "ops/cuda/launch.cuh"

namespace sft::test {

namespace {

namespace ptx = ops::cuda::ptx;
namespace sm90 = ops::cuda::sm90;
using ops::cuda::Bf16;

constexpr int rows = 64, columns = 64, tile = rows * columns;

__global__ void __launch_bounds__(128)
    multiply_kernel(WgmmaFault fault, bool transposes_b, bool a_in_registers, const Bf16* a, const Bf16* b, float* d) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, first_row = thread / 32 * 16 + lane / 4;
  Bf16* const tile_a = sm90::first_tile();
  Bf16* const tile_b = tile_a + tile;
  for (int i = thread; i < tile / 8; i += 128) {
    const int row = i / 8, piece = i % 8, offset = sm90::tile_offset<rows>(row, piece);
    ptx::copy_16_async(tile_a + offset, a + row * columns + piece * 8, true);
    ptx::copy_16_async(tile_b + offset, b + row * columns + piece * 8, true);
  }
  ptx::commit_copies();
  ptx::wait_copies<0>();
  if (fault != WgmmaFault::copies_not_shown) ptx::show_to_wgmma();
  if (fault != WgmmaFault::no_barrier) __syncthreads();

  std::uint32_t registers[columns / 16][4];
  for (int k = 0; k < columns / 16; ++k) {
    for (int i = 0; i < 4; ++i) {
      const Bf16* const pair = a + (first_row + i % 2 * 8) * columns + 16 * k + i / 2 * 8 + 2 * (lane % 4);
      registers[k][i] = *reinterpret_cast<const std::uint32_t*>(pair);
    }
  }
  float sums[columns / 8][4];
  if (fault != WgmmaFault::no_fence) ptx::wgmma_begin();
  std::uint64_t first_a = sm90::operand(tile_a, rows * 128), first_b = sm90::operand(tile_b, rows * 128);
  if (fault == WgmmaFault::no_swizzle) first_b &= ~(std::uint64_t{3} << 62);
  if (fault == WgmmaFault::rows_from_the_middle) first_b += 128 / sm90::operand_unit;
  if (fault == WgmmaFault::beyond_shared_memory) first_b += tile * 2 / sm90::operand_unit;
  for (int k = 0; k < columns / 16; ++k) {
    if (fault == WgmmaFault::other_products_in_a_warp && k == 3 && thread / 32 == 2) continue;
    const std::uint64_t of_a = first_a + static_cast<unsigned>(k) * 32 / sm90::operand_unit;
    const std::uint64_t of_b = first_b + static_cast<unsigned>(k) * (transposes_b ? 2048 : 32) / sm90::operand_unit;
    if (transposes_b && a_in_registers) ptx::wgmma<true>(sums, registers[k], of_b, k > 0);
    if (transposes_b && !a_in_registers) ptx::wgmma<true>(sums, of_a, of_b, k > 0);
    if (!transposes_b && a_in_registers) ptx::wgmma<false>(sums, registers[k], of_b, k > 0);
    if (!transposes_b && !a_in_registers) ptx::wgmma<false>(sums, of_a, of_b, k > 0);
  }
  ptx::wgmma_commit();
  if (fault == WgmmaFault::not_waited_for) return;
  const float early = sums[0][0];
  if (fault == WgmmaFault::registers_written_before_the_wait) registers[1][2] ^= 0x80008000u;
  if (fault == WgmmaFault::tile_written_before_the_wait && thread == 0) tile_b[8] = tile_b[0];
  ptx::wgmma_wait<0>();
  ptx::hold_sums(sums);
  if (fault == WgmmaFault::sums_read_before_the_wait) sums[0][0] = early;
  for (int n = 0; n < columns / 8; ++n) {
    for (int i = 0; i < 4; ++i) {
      d[(first_row + i / 2 * 8) * columns + 8 * n + 2 * (lane % 4) + i % 2] = sums[n][i];
    }
  }
}

}  // namespace

void multiply(WgmmaFault fault, bool transposes_b, bool a_in_registers, const std::uint16_t* a, const std::uint16_t* b,
              float* d, cudaStream_t stream) {
  cuda::launch("multiply", multiply_kernel, 1, 128, 2 * tile * sizeof(Bf16) + sm90::kTileAlignment, stream, fault,
               transposes_b, a_in_registers, reinterpret_cast<const Bf16*>(a), reinterpret_cast<const Bf16*>(b), d);
}

}  // namespace sft::test
