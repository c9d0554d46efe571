#pragma once
// How a program of one process ends. Programs under MPI end through comm/session.hpp.

#include <functional>
#include <string>
#include <utility>

#include "sft/core/error.hpp"

namespace sft {

/// Status and message of the exception that is being handled; call inside a catch block.
[[nodiscard]] std::pair<ExitStatus, std::string> describe_current_exception();

/// `status`, unless a run that did all it should lost words on standard output: that is an error, printed, and
/// ExitStatus::failure.
[[nodiscard]] int status_with_output(int status);

/// Runs `body`, which returns the exit status; an exception becomes one printed error and its exit status.
[[nodiscard]] int run_alone(const std::function<int()>& body);

}  // namespace sft
