/* SPDX-License-Identifier: Apache-2.0
   Loaded before a program (LD_PRELOAD), counts what a rank asks of MPI: collectives of the whole world, those of smaller
   groups, and messages. Rank 0 prints them when MPI ends. */
#include <mpi.h>
#include <stdio.h>

static long num_world, num_small, num_messages;

static void count(MPI_Comm communicator) {
  int size = 0, all = 0;
  PMPI_Comm_size(communicator, &size);
  PMPI_Comm_size(MPI_COMM_WORLD, &all);
  *(size == all ? &num_world : &num_small) += 1;
}

int MPI_Allreduce(const void* from, void* to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm communicator) {
  count(communicator);
  return PMPI_Allreduce(from, to, n, type, op, communicator);
}
int MPI_Bcast(void* buffer, int n, MPI_Datatype type, int root, MPI_Comm communicator) {
  count(communicator);
  return PMPI_Bcast(buffer, n, type, root, communicator);
}
int MPI_Allgather(const void* from, int n, MPI_Datatype type, void* to, int m, MPI_Datatype of, MPI_Comm communicator) {
  count(communicator);
  return PMPI_Allgather(from, n, type, to, m, of, communicator);
}
int MPI_Allgatherv(const void* from, int n, MPI_Datatype type, void* to, const int m[], const int at[], MPI_Datatype of,
                   MPI_Comm communicator) {
  count(communicator);
  return PMPI_Allgatherv(from, n, type, to, m, at, of, communicator);
}
int MPI_Iallreduce(const void* from, void* to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm communicator,
                   MPI_Request* request) {
  count(communicator);
  return PMPI_Iallreduce(from, to, n, type, op, communicator, request);
}
int MPI_Barrier(MPI_Comm communicator) {
  count(communicator);
  return PMPI_Barrier(communicator);
}
int MPI_Isend(const void* from, int n, MPI_Datatype type, int rank, int tag, MPI_Comm communicator,
              MPI_Request* request) {
  ++num_messages;
  return PMPI_Isend(from, n, type, rank, tag, communicator, request);
}
int MPI_Send(const void* from, int n, MPI_Datatype type, int rank, int tag, MPI_Comm communicator) {
  ++num_messages;
  return PMPI_Send(from, n, type, rank, tag, communicator);
}
int MPI_Finalize(void) {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) fprintf(stderr, "mpi-calls %ld %ld %ld\n", num_world, num_small, num_messages);
  return PMPI_Finalize();
}
