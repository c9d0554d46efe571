// SPDX-License-Identifier: Apache-2.0
// How errors end a run.

#include <mpi.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <string>

#include "communicator.hpp"
#include "sft/comm/launcher.hpp"
#include "sft/comm/session.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/core/stop_signals.hpp"

namespace sft::comm {

namespace {

/// Ends all ranks for an exception that nothing catches. Nothing has been unwound then, so no destructor can wait for a
/// rank that waits for this one, nor take memory away that another rank is reading.
[[noreturn]] void abort_on_uncaught_exception() {
  if (!std::current_exception()) abort_all(ExitStatus::failure, "terminated");
  const Error error = current_error();
  abort_all(error.status(), error.what());
}

/// Refuses ranks that were started together and do not find each other: each would train alone, over the others' files.
void check_world(const Session& session) {
  const int num_launched = num_launched_ranks();
  if (session.world().size() > 1 || num_launched <= 1) return;
  set_log_rank(launched_rank());  // MPI calls each of them 0
  const std::string library = mpi_library();
  const bool is_open_mpi = library.starts_with("Open MPI");
  const std::string count = std::to_string(num_launched);
  throw SharedError(ExitStatus::configuration, count + " ranks were started, but each is alone in its MPI world",
                    "the launcher does not offer " + std::string(is_open_mpi ? "PMIx" : "the PMI") + " that " +
                        library + " of this program needs to join them",
                    "start with `srun --mpi=" + std::string(is_open_mpi ? "pmix" : "pmi2") +
                        "` (`srun --mpi=list` shows what there is), or with the mpirun of that MPI, `mpirun -np " +
                        count + "`");
}

}  // namespace

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version(text.data(), length);
  return version.substr(0, version.find_first_of(",\n"));
}

int run_program(int argc, char** argv, const std::function<int(Session&)>& body) {
  listen_for_signals();
  std::set_terminate(abort_on_uncaught_exception);
  Session session(&argc, &argv);
  const auto run_body = [&] {
    try {
      check_world(session);
      if (session.world().size() == 1) return run_alone([&] { return body(session); });
      return status_with_output(body(session));
    } catch (const SharedError& error) {
      if (log_rank() == 0) log_error(error.what());
      return static_cast<int>(error.status());
    }
  };
  const int status = run_body();
  tell_ending(status);
  return status;
}

int run_before_mpi(const std::function<void()>& work) {
  set_log_rank(launched_rank());
  try {
    work();
    return status_with_output(static_cast<int>(ExitStatus::done));
  } catch (...) {
    const Error error = current_error();
    if (num_launched_ranks() > 1) {  // a rank that ends without MPI makes mpirun end the others before they speak
      return run_program(0, nullptr, [&](Session&) -> int { throw SharedError(error.status(), error.what()); });
    }
    if (log_rank() == 0) log_error(error.what());
    return static_cast<int>(error.status());
  }
}

void abort_all(ExitStatus status, const std::string& message) {
  log_error("rank " + std::to_string(log_rank()) + ": " + message);
  tell_ending(static_cast<int>(status));
  int is_running = 0;
  MPI_Initialized(&is_running);
  if (is_running != 0) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(status));
  std::_Exit(static_cast<int>(status));
}

}  // namespace sft::comm
