// SPDX-License-Identifier: Apache-2.0
#include "sft/comm/session.hpp"

#include <mpi.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include "communicator.hpp"
#include "node_map.hpp"
#include "sft/comm/launcher.hpp"
#include "sft/core/log.hpp"

namespace sft::comm {

namespace {

long num_cores() { return sysconf(_SC_NPROCESSORS_ONLN); }

/// With more ranks than cores a rank that waits inside Open MPI has to let others run. Open MPI decides that itself
/// from the slots it was given, which need not be the cores; a choice of the user's stays.
void yield_when_ranks_share_cores() {
  if (num_local_ranks() > num_cores()) setenv("OMPI_MCA_mpi_yield_when_idle", "1", /*overwrite=*/0);
}

/// Puts back how this process takes a crash. MPI libraries install handlers that print a backtrace, which takes memory:
/// a crash inside the heap would wait forever for the heap's lock, and all ranks with it. Users who ask Open MPI for
/// its handlers, by the variable that names their signals, have them.
class CrashActions {
 public:
  CrashActions() {
    for (std::size_t i = 0; i < crashes.size(); ++i) ::sigaction(crashes[i], nullptr, &former_[i]);
  }
  ~CrashActions() {
    if (std::getenv("OMPI_MCA_opal_signal") != nullptr) return;
    for (std::size_t i = 0; i < crashes.size(); ++i) ::sigaction(crashes[i], &former_[i], nullptr);
  }
  CrashActions(const CrashActions&) = delete;
  CrashActions& operator=(const CrashActions&) = delete;

 private:
  static constexpr std::array<int, 5> crashes{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  std::array<struct sigaction, crashes.size()> former_{};
};

Group start_mpi(int* argc, char*** argv) {
  yield_when_ranks_share_cores();
  leave_foreign_step();
  const CrashActions crash_actions;
  int provided = 0;
  if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
    throw Error(ExitStatus::failure, "MPI did not start", "MPI_Init_thread failed", "start with mpirun");
  }
  if (provided < MPI_THREAD_FUNNELED) {
    throw Error(ExitStatus::failure, "MPI cannot be used beside threads", "it offers MPI_THREAD_SINGLE only",
                "use an MPI library built with support of threads");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm world = MPI_COMM_NULL;
  if (MPI_Comm_dup(MPI_COMM_WORLD, &world) != MPI_SUCCESS) {
    throw Error(ExitStatus::failure, "MPI did not start", "MPI_Comm_dup failed", "check the MPI installation");
  }
  return make_group(world, "world");
}

}  // namespace

Session::Session(int* argc, char*** argv) : world_(start_mpi(argc, argv)) {
  set_log_rank(world_.rank());
  node_ = split_by_node(world_, "node");
}

Session::~Session() {
  node_ = Group();
  world_ = Group();
  MPI_Finalize();
}

}  // namespace sft::comm
