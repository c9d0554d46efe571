// SPDX-License-Identifier: Apache-2.0
#pragma once
// A program of one process: its version, how it ends, when it began, how many files it may open, what becomes of memory
// that it frees. Programs under MPI end through comm/session.hpp.

#include <functional>

#include "sft/core/error.hpp"

namespace sft {

/// "MAJOR.MINOR.PATCH" of the project, from CMake.
[[nodiscard]] const char* version() noexcept;

/// The exception that is being handled as an Error; call inside a catch block. Those of the standard library that users
/// can meet (files, memory) get the words of one; any other is a bug in this program, and the message says so, says in
/// which version, and asks for a report.
[[nodiscard]] Error current_error();

/// `status`, unless a run that did all it should lost words on standard output: that is an error, printed, and
/// ExitStatus::failure.
[[nodiscard]] int status_with_output(int status);

/// Runs `body`, which returns the exit status; an exception becomes one printed error and its exit status.
[[nodiscard]] int run_alone(const std::function<int()>& body);

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
