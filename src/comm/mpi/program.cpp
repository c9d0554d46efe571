// How errors end a run.

#include <mpi.h>

#include <cstdlib>
#include <exception>

#include "sft/comm/session.hpp"
#include "sft/core/log.hpp"

namespace sft::comm {

namespace {

/// The status and message of the exception that is being handled.
std::pair<ExitStatus, std::string> describe_current_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.status(), error.what()};
  } catch (const std::exception& error) {
    return {ExitStatus::failure, error.what()};
  } catch (...) {
    return {ExitStatus::failure, "unknown exception"};
  }
}

/// Ends all ranks for an exception that nothing catches. Nothing has been unwound then, so no destructor can wait for a
/// rank that waits for this one, nor take memory away that another rank is reading.
[[noreturn]] void abort_on_uncaught_exception() {
  if (!std::current_exception()) abort_all(ExitStatus::failure, "terminated");
  const auto [status, message] = describe_current_exception();
  abort_all(status, message);
}

int run_alone(Session& session, const std::function<int(Session&)>& body) {
  try {
    return body(session);
  } catch (...) {
    const auto [status, message] = describe_current_exception();
    log_error(message);
    return static_cast<int>(status);
  }
}

/// A run that did all it should but whose words were lost is no success.
int status_with_output(int status) {
  if (status != static_cast<int>(ExitStatus::done) || !has_lost_output()) return status;
  log_error("standard output was cut (it cannot be written): free space, or write to another place");
  return static_cast<int>(ExitStatus::failure);
}

}  // namespace

int run_program(int argc, char** argv, const std::function<int(Session&)>& body) {
  std::set_terminate(abort_on_uncaught_exception);
  Session session(&argc, &argv);
  if (session.world().size() == 1) return status_with_output(run_alone(session, body));
  try {
    return status_with_output(body(session));
  } catch (const SharedError& error) {
    if (session.world().rank() == 0) log_error(error.what());
    return static_cast<int>(error.status());
  }
}

void abort_all(ExitStatus status, const std::string& message) {
  log_error("rank " + std::to_string(log_rank()) + ": " + message);
  int is_running = 0;
  MPI_Initialized(&is_running);
  if (is_running != 0) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(status));
  std::_Exit(static_cast<int>(status));
}

}  // namespace sft::comm
