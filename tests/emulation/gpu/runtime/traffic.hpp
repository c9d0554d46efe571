// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts what kernels ask of memory: sectors and bytes of device memory, bank conflicts of shared memory.
//
// A GPU serves the lanes of a warp together, an instruction at a time. Here a warp's instruction is what its lanes do
// at the same place in the program for the same time since all of the warp last met (a barrier or a shuffle of the
// whole warp). That is how a warp runs whose lanes part only at the ends of loops and in branches without loops. Not
// seen:
// - lanes that go through a loop within a loop differently often are matched by how often they came by in all;
// - what nvcc does otherwise than g++: values kept in registers instead of read again, or the other way round;
// - caches, but for the ideal ones below; and which banks atomic operations on one word of shared memory wait for.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/shadow.hpp"

namespace sft::emulation {

/// Of one launch of a kernel.
struct LaunchTraffic {
  std::string kernel;
  /// Bytes that cross the memory's bus where the L2 cache is ideal: different bytes that are read, but for those that
  /// the launch itself wrote before, and different bytes that are written.
  std::uint64_t read_bytes = 0, written_bytes = 0;
  /// Sectors of 32 bytes of device memory that instructions ask for, each counted as often as it is asked for; and the
  /// least for the same bytes if those of each instruction lay side by side.
  std::uint64_t sectors = 0, least_sectors = 0;
  /// Passes over the 32 banks, of 4 bytes each, of shared memory; and the least for the same words. Accesses of 16
  /// bytes go by quarters of a warp, those of 8 by halves; lanes that want the same word share it.
  std::uint64_t shared_passes = 0, least_shared_passes = 0;
  /// Instructions of warps: ldmatrix of four matrices, four passes each, and mma.sync m16n8k16, of 4096 FLOPs.
  std::uint64_t matrix_loads = 0, matrix_products = 0;

  [[nodiscard]] std::uint64_t bytes() const { return read_bytes + written_bytes; }
};

/// Counts launches that run from now on. This and take_traffic() are called while no work is queued.
void start_counting_traffic();
/// Stops, and returns what was counted, in the order in which the launches ran.
[[nodiscard]] std::vector<LaunchTraffic> take_traffic();

// The rest is called by the runtime.

/// Whether it counts; the functions below are called only then.
extern bool is_counting_traffic;
void begin_traffic_of(const char* kernel);
/// The running thread accesses these bytes. `place` tells instructions apart: where in the program it is.
void count_access(const void* begin, std::size_t bytes, Access access, const void* place);
/// All threads of `warp` have met, or ended.
void end_instructions_of(std::uint32_t warp);

}  // namespace sft::emulation
