// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products of warpgroups (wgmma, PTX ISA): started by one instruction, done when another waits for them.
//
// Included by kernels that g++ compiles as C++20, through the emulation's ops/cuda/ptx_sm90.cuh.

#include <cstdint>

#include "runtime/block.hpp"

namespace sft::emulation {

/// d (64, columns) = A (64, 16) B (16, columns) [+ d], bf16 and float32, as one thread starts it.
struct Wgmma {
  float* d;  ///< this thread's part, columns / 2 numbers
  int columns;
  const std::uint32_t* a_registers;  ///< this thread's part of A, 4 registers; null: A is in shared memory
  std::uint64_t a, b;                ///< descriptors
  bool transposes_b, adds;
};

/// A place in the block's shared memory as descriptors have it.
[[nodiscard]] std::uint32_t shared_address(const void* pointer);

/// fence.proxy.async: products may read what this thread has copied, behind the next barrier.
void show_to_wgmma();
/// wgmma.fence: comes between a wait and the next product.
void begin_wgmma();
/// wgmma.mma_async, all lanes of a warp together. d is not a number, and what the product reads must stay as it is,
/// until it has been waited for; it is computed then.
void start_wgmma(const Wgmma& product, Site site);
/// wgmma.commit_group: the products since the last call are a group.
void commit_wgmma();
/// wgmma.wait_group, all lanes of a warp together: all but the newest `num_groups` groups of this warp are done.
void wait_wgmma(int num_groups, Site site);

}  // namespace sft::emulation
