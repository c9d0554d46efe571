// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who touched which bytes last: finds accesses out of bounds, and races between threads, blocks and streams.
//
// Every two bytes of shared and device memory have a cell that holds the last write and the last reads. An access is a
// race with an earlier one, of which at least one writes, unless something orders them: it is the same thread; a
// barrier of the block, or of the whole warp, lies between them; both are atomic; or they belong to different tasks,
// and events or the host's waits order these (FastTrack, Flanagan and Freund 2009, with a vector clock over streams).
// Blocks of a kernel are ordered only where one sees the other's atomic operation behind a fence.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

extern "C" const char __executable_start, _end;  // of the program, by the linker

namespace sft::emulation {

/// For each stream, how many of its tasks come before: what a task, an event or the host knows.
using Clock = std::vector<std::uint64_t>;
void join(Clock& clock, const Clock& other);
[[nodiscard]] std::uint64_t count_of(const Clock& clock, std::size_t stream);

/// What follows until end_task() belongs to task number `index` of a stream, which comes after what `clock` says;
/// `clock` is used until then. `run` is 0 when the task is tried for the first time, and keeps its value for the next
/// time.
void begin_task(std::size_t stream, std::uint64_t index, const Clock& clock, int device, const std::string& name,
                std::uint32_t& run);
void end_task();
/// The name given to begin_task; empty when none runs.
[[nodiscard]] const std::string& name_of_task();

/// A new number for a block.
[[nodiscard]] std::uint32_t next_run();

/// Whether these bytes are of the program: constants, threadIdx and its like, which every thread may read.
[[nodiscard]] inline bool is_of_program(const void* begin, std::size_t bytes) {
  const auto* const first = static_cast<const char*>(begin);
  return first >= &__executable_start && first + bytes <= &_end;
}

enum class Access { read, write, atomic };
/// Checks an access of the running thread or task and remembers it. `what` names the instruction, or is null for a
/// plain load or store. Ends the program where the access is illegal.
void check_access(const void* begin, std::size_t bytes, std::size_t alignment, Access access, const char* what);

/// These bytes of the GPU's memory were freed, and their addresses are not used again.
void forget_accesses(const void* begin, std::size_t bytes);

/// A thread makes an atomic operation at `address`. Its block sees what other blocks wrote that came here before it and
/// had a fence behind what they wrote; with `has_fence` later ones see what this block wrote.
void exchange_order(const void* address, bool has_fence);

}  // namespace sft::emulation
