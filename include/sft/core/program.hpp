#pragma once
// How a process began, and how a program of one process ends. Programs under MPI end through comm/session.hpp.

#include <functional>

#include "sft/core/error.hpp"

namespace sft {

/// The exception that is being handled as an Error; call inside a catch block. Those of the standard library that users
/// can meet (files, memory) get the words of one; any other is a bug of this program and says so.
[[nodiscard]] Error current_error();

/// `status`, unless a run that did all it should lost words on standard output: that is an error, printed, and
/// ExitStatus::failure.
[[nodiscard]] int status_with_output(int status);

/// Runs `body`, which returns the exit status; an exception becomes one printed error and its exit status.
[[nodiscard]] int run_alone(const std::function<int()>& body);

/// Absolute time of this process's start, in seconds of std::chrono::system_clock (from the operating system).
[[nodiscard]] double process_start_time_s();

}  // namespace sft
