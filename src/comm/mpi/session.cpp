// SPDX-License-Identifier: Apache-2.0
#include "sft/comm/session.hpp"

#include <mpi.h>
#include <unistd.h>

#include <cstdlib>

#include "communicator.hpp"
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

Group start_mpi(int* argc, char*** argv) {
  yield_when_ranks_share_cores();
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

Group split_by_node(const Group& world) {
  MPI_Comm node = MPI_COMM_NULL;
  const Group::Impl& impl = world.impl();
  impl.check(MPI_Comm_split_type(impl.communicator, MPI_COMM_TYPE_SHARED, impl.rank, MPI_INFO_NULL, &node),
             "MPI_Comm_split_type");
  return make_group(node, "node");
}

}  // namespace

Session::Session(int* argc, char*** argv) : world_(start_mpi(argc, argv)) {
  set_log_rank(world_.rank());
  node_ = split_by_node(world_);
}

Session::~Session() {
  node_ = Group();
  world_ = Group();
  MPI_Finalize();
}

}  // namespace sft::comm
