// SPDX-License-Identifier: Apache-2.0
#pragma once
// A product of a warpgroup, done right and wrong in one way each.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sft::test {

enum class WgmmaFault {
  none,
  no_fence,
  copies_not_shown,
  no_barrier,
  not_waited_for,
  sums_read_before_the_wait,
  registers_written_before_the_wait,
  tile_written_before_the_wait,
  no_swizzle,
  rows_from_the_middle,
  beyond_shared_memory,
  other_products_in_a_warp,
};

/// d (64, 64) float32 = a (64, 64) times the transpose of b (64, 64), or b itself, all row by row in device memory, of
/// bf16; a in registers or in shared memory. One block of 128 threads.
void multiply(WgmmaFault fault, bool transposes_b, bool a_in_registers, const std::uint16_t* a, const std::uint16_t* b,
              float* d, cudaStream_t stream);

}  // namespace sft::test
