// SPDX-License-Identifier: Apache-2.0
// Takes the place of two functions in this program: of MPI's through its profiling interface, and of the C library's.
#include "window_faults.hpp"

#include <mpi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

using sft::test::WindowFaults;

extern "C" int MPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm communicator, void* base,
                                       MPI_Win* window) {
  const int result = PMPI_Win_allocate_shared(size, unit, info, communicator, base, window);
  return WindowFaults::mpi_fails ? MPI_ERR_NO_MEM : result;
}

extern "C" int madvise(void* begin, size_t bytes, int advice) noexcept {
  constexpr int populate_write = 23;
  if (WindowFaults::pages_fail && advice == populate_write) {
    errno = ENOMEM;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_madvise, begin, bytes, advice));
}
