#pragma once

namespace sft {

/// "MAJOR.MINOR.PATCH" of the project, from CMake.
[[nodiscard]] const char* version() noexcept;

/// Absolute time of this process's start, in seconds of std::chrono::system_clock (from the operating system).
[[nodiscard]] double process_start_time_s();

}  // namespace sft
