// SPDX-License-Identifier: Apache-2.0
#pragma once
// This process: when it began, how many files it may open.

namespace sft {

/// Absolute time of this process's start, in seconds of std::chrono::system_clock (from the operating system).
[[nodiscard]] double process_start_time_s();

/// Lets this process open as many files as the system allows it: a checkpoint may have more shard files than the usual
/// limit.
void raise_open_file_limit();

}  // namespace sft
