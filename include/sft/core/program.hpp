// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a program of one process ends. Programs under MPI end through comm/session.hpp.

#include <functional>

#include "sft/core/error.hpp"

namespace sft {

/// The exception that is being handled as an Error; call inside a catch block. Those of the standard library that users
/// can meet (files, memory) get the words of one; any other is a bug in this program, and the message says so, says in
/// which version, and asks for a report.
[[nodiscard]] Error current_error();

/// `status`, unless a run that did all it should lost words on standard output: that is an error, printed, and
/// ExitStatus::failure.
[[nodiscard]] int status_with_output(int status);

/// Runs `body`, which returns the exit status; an exception becomes one printed error and its exit status.
[[nodiscard]] int run_alone(const std::function<int()>& body);

}  // namespace sft
