// SPDX-License-Identifier: Apache-2.0
#pragma once
// What libraries that stand in for NVIDIA's (cuBLASLt, NCCL) need of the emulated CUDA runtime: to queue work on a
// stream, and to say which memory it touches.
//
// Queued work runs on the host, later: at a call that waits for it, or at any other point where the runtime makes
// progress. Tasks of one stream run in their order; between streams only events and the host's own waits order them,
// and the runtime picks at random among what may run.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>

namespace sft::emulation {

/// Queues `try_run` on `stream`, named `name` in messages. It is called while device memory is readable and writable;
/// it returns false when it cannot finish yet (a collective whose peers have not come) and is called again later,
/// before anything behind it on the stream. It must make no CUDA call. Where the stream is captured it is called at
/// each launch of the graph. Ends the program when `stream` is unknown or destroyed.
void enqueue(cudaStream_t stream, std::string name, std::function<bool()> try_run);

/// Called by a task: it reads (writes) these bytes now. Ends the program when they are not memory that its stream's
/// device can reach, or when another task that is not ordered with this one touches them (a missing wait).
void note_read(const void* begin, std::size_t bytes);
void note_write(const void* begin, std::size_t bytes);

/// Ends the program where `stream` is captured: for work that cannot be done again.
void require_not_captured(cudaStream_t stream, const char* what);

/// What the address is to the device of `stream`.
enum class MemoryKind {
  unknown,  ///< ordinary host memory, freed memory, or memory of another device
  device,   ///< cudaMalloc
  pinned,   ///< cudaMallocHost, cudaHostAlloc, cudaHostRegister
};
/// Whether all of [begin, begin + bytes) lies in one live allocation that the device of `stream` reaches, and of what
/// kind. For checks when a call is made, before its task runs.
[[nodiscard]] MemoryKind memory_kind(cudaStream_t stream, const void* begin, std::size_t bytes);

/// The device of a live stream. Ends the program for any other handle.
[[nodiscard]] int device_of(cudaStream_t stream);

/// From now on tasks also run in the background while the host makes no CUDA call for a while: for tasks that other
/// processes wait for. A GPU does so always; without it the order of tasks follows from the seed alone.
void run_in_background();

/// Prints `text` and how to run this order again, and ends the program with `fault_exit_status`.
[[noreturn]] void fault(const std::string& text);
inline constexpr int fault_exit_status = 86;

/// A random number of 0 to count - 1 from the sequence that SFT_EMULATION_SEED starts.
[[nodiscard]] unsigned long long random_below(unsigned long long count);
/// Starts the sequence anew, as if SFT_EMULATION_SEED were `seed`.
void set_seed(unsigned long long seed);

/// CUDA_DEVICE_MAX_CONNECTIONS as the first call of the runtime found it, which the real one then keeps to; empty: it
/// was not set. This is such a call too.
[[nodiscard]] const std::string& connections_at_first_call();

/// What the host has done since the start of the program.
struct HostCounts {
  long launches = 0;            ///< kernels, each by itself
  long graph_launches = 0;      ///< graphs
  long graphs_alive = 0;        ///< that were instantiated and not destroyed
  long products = 0;            ///< calls of cuBLASLt and cuBLAS that queue products
  long synchronizations = 0;    ///< calls that blocked until work was finished; queries do not count
  long pageable_copies = 0;     ///< asynchronous copies of pageable host memory, which block or are staged
  long device_allocations = 0;  ///< cudaMalloc
  long profiler_starts = 0, profiler_stops = 0;
};
[[nodiscard]] HostCounts host_counts();

}  // namespace sft::emulation
