// SPDX-License-Identifier: Apache-2.0
#pragma once
// This process: when it began, how many files it may open, what becomes of memory that it frees.

namespace sft {

/// Absolute time of this process's start, in seconds of std::chrono::system_clock (from the operating system).
[[nodiscard]] double process_start_time_s();

/// Lets this process open as many files as the system allows it: a checkpoint may have more shard files than the usual
/// limit.
void raise_open_file_limit();

/// Lets this process give memory back when it is freed: blocks of a mebibyte or more at once, and smaller ones when a
/// mebibyte lies free at the end of a heap. By default glibc keeps more the larger the blocks were that it has seen, on
/// each thread, up to 64 MiB: more than anyone plans. Call it before anything is allocated that is large.
void return_freed_memory();

}  // namespace sft
