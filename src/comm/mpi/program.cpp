// How errors end a run.

#include <mpi.h>

#include <cstdlib>
#include <exception>

#include "sft/comm/session.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"

namespace sft::comm {

namespace {

/// Ends all ranks for an exception that nothing catches. Nothing has been unwound then, so no destructor can wait for a
/// rank that waits for this one, nor take memory away that another rank is reading.
[[noreturn]] void abort_on_uncaught_exception() {
  if (!std::current_exception()) abort_all(ExitStatus::failure, "terminated");
  const Error error = current_error();
  abort_all(error.status(), error.what());
}

}  // namespace

int run_program(int argc, char** argv, const std::function<int(Session&)>& body) {
  std::set_terminate(abort_on_uncaught_exception);
  Session session(&argc, &argv);
  if (session.world().size() == 1) return run_alone([&] { return body(session); });
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
