// SPDX-License-Identifier: Apache-2.0
#pragma once
// A grid of blocks on the host. The threads of a block are fibers: each runs until a barrier or an exchange of its
// warp, and who runs next is chosen at random. Blocks run one after the other in random order.
//
// Included by kernels that g++ compiles as C++20, through the emulation's ops/cuda/launch.cuh.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sft::emulation {

/// Where in the source a thread meets others: all of them must stand at the same place.
struct Site {
  const char* file;
  int line;
};

struct KernelLaunch {
  const char* name;
  dim3 grid, block;
  std::size_t shared_bytes;
  /// Runs one thread of the kernel with the arguments at `arguments`.
  void (*body)(const void* arguments);
  const void* arguments;
  std::size_t argument_bytes;
};

/// Runs the whole grid. Ends the program at the first thing a kernel may not do.
void run_grid(const KernelLaunch& launch);

// The rest is called by a thread of a running block.

[[nodiscard]] unsigned char* shared_memory_begin();

/// __syncthreads: every thread of the block must come, from the same place.
void block_barrier(Site site);
enum class Vote { count, all, any };
/// The same with the sum, conjunction or disjunction of `predicate` over the block.
[[nodiscard]] int block_vote(Vote vote, bool predicate, Site site);

/// __syncwarp: every lane of `mask` must come with this mask, from the same place.
void warp_barrier(unsigned mask, Site site);
/// The number of this thread in its warp.
[[nodiscard]] int current_lane();
/// `bits` of lane `source_lane`, which must be in `mask`. `name` is the intrinsic's.
[[nodiscard]] std::uint64_t warp_shuffle(const char* name, unsigned mask, std::uint64_t bits, int source_lane,
                                         Site site);
/// The lanes of `mask` whose predicate holds.
[[nodiscard]] unsigned warp_ballot(const char* name, unsigned mask, bool predicate, Site site);
/// An instruction of a whole warp, as mma.sync: blocks until all 32 lanes have come; one of them then runs work(lanes)
/// for all, where lanes[i] is what lane i passed. Accesses in `work` are not checked (see check_read), and no calls for
/// checks need to be in it: SFT_EMULATION_UNCHECKED.
#define SFT_EMULATION_UNCHECKED __attribute__((no_sanitize("thread", "alignment")))
void warp_collective(const char* name, void* lane, void (*work)(void* const* lanes), Site site);

/// Counts one for what kernels move (traffic.hpp), by what runs for a whole warp: a load of matrices, a product of
/// them.
void count_matrix_load();
void count_matrix_product();

/// Checks an access of this thread that no instrumented load or store makes: bounds, alignment to `alignment` bytes,
/// and races. `what` names the instruction.
void check_read(const void* begin, std::size_t bytes, std::size_t alignment, const char* what);
void check_write(void* begin, std::size_t bytes, std::size_t alignment, const char* what);

/// cp.async: copies source_bytes and fills up to `bytes` with zeros, but not before this thread waits for it. Until
/// then the destination holds a pattern. 4, 8 or 16 bytes, both addresses aligned to them; global to shared memory.
void defer_copy(void* shared_destination, const void* global_source, std::size_t bytes, std::size_t source_bytes);
/// cp.async.commit_group: what was deferred since the last call is a group.
void commit_copies();
/// cp.async.wait_group: all but the last `num_groups` groups of this thread have arrived.
void wait_copies(int num_groups);

}  // namespace sft::emulation

// The names of CUDA. They change from thread to thread, and are no constants.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
inline constexpr int warpSize = 32;
