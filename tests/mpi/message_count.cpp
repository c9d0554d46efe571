// SPDX-License-Identifier: Apache-2.0
// Takes the place of a function of MPI in this program, through its profiling interface.
#include "message_count.hpp"

#include <mpi.h>

using sft::test::MessageCount;

extern "C" int MPI_Isend(const void* source, int count, MPI_Datatype type, int to, int tag, MPI_Comm communicator,
                         MPI_Request* request) {
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  MessageCount::messages += 1;
  MessageCount::bytes += static_cast<long>(count) * bytes;
  return PMPI_Isend(source, count, type, to, tag, communicator, request);
}
