// SPDX-License-Identifier: Apache-2.0
#pragma once
// When this process began.

namespace sft {

/// Absolute time of this process's start, in seconds of std::chrono::system_clock (from the operating system).
[[nodiscard]] double process_start_time_s();

}  // namespace sft
