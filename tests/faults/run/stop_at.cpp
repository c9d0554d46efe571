// SPDX-License-Identifier: Apache-2.0
// Loaded before other libraries, it stops a rank by SIGSTOP where STOP_AT says, as soon as the file STOP_WHEN is there:
//   gather  while it waits for others in a collective on tensors
//   sum     as it comes to a sum of hosts
//   read    in a read of a file of the data, a second after it began
//   save    in a write to a shard file
// The rank is STOP_RANK. A rank of STOP_RANK that reads may also never return from it: STOP_AT=hang.

#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace {

bool is_meant() {
  static const bool is_rank = [] {
    for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
      const char* rank = std::getenv(variable);
      if (rank != nullptr) return std::string(rank) == std::getenv("STOP_RANK");
    }
    return false;
  }();
  return is_rank && ::access(std::getenv("STOP_WHEN"), F_OK) == 0;
}

bool is_wanted(const char* place) {
  static const std::string wanted = std::getenv("STOP_AT") == nullptr ? "" : std::getenv("STOP_AT");
  return wanted == place && is_meant();
}

/// The signal goes to this thread, which is then where it stands: one to the process may be taken by another thread
/// while this one goes on.
void stop() { ::raise(SIGSTOP); }

bool is_file(int descriptor, const char* part) {
  char path[4096] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return ::readlink(link.c_str(), path, sizeof path - 1) > 0 && std::strstr(path, part) != nullptr;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// How often this thread has looked for messages and yielded in turn, as it does in a wait for a collective.
thread_local int num_turns = 0;
thread_local bool has_looked = false;

void yields() {
  if (!std::exchange(has_looked, false)) return;
  if (++num_turns > 3 && is_wanted("gather")) stop();
}

}  // namespace

extern "C" {

int MPI_Iprobe(int source, int tag, MPI_Comm communicator, int* flag, MPI_Status* status) {
  has_looked = false;  // MPI yields too
  const int result = PMPI_Iprobe(source, tag, communicator, flag, status);
  has_looked = true;
  return result;
}

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm communicator) {
  num_turns = 0;
  has_looked = false;
  if (is_wanted("sum")) stop();
  return PMPI_Allreduce(send, receive, count, type, op, communicator);
}

int sched_yield() noexcept {
  static auto* const real = next<int()>("sched_yield");
  yields();
  return real();
}

int nanosleep(const timespec* time, timespec* left) {
  static auto* const real = next<int(const timespec*, timespec*)>("nanosleep");
  yields();
  return real(time, left);
}

ssize_t pread(int descriptor, void* bytes, size_t size, off_t at) {
  static auto* const real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  if (is_wanted("read") && is_file(descriptor, "/data/")) {
    ::sleep(1);
    stop();
  }
  while (is_wanted("hang") && is_file(descriptor, "/data/")) ::sleep(1);
  return real(descriptor, bytes, size, at);
}
ssize_t pread64(int descriptor, void* bytes, size_t size, off64_t at) { return pread(descriptor, bytes, size, at); }

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t at) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  if (is_wanted("save") && is_file(descriptor, "/shard-")) stop();
  return real(descriptor, bytes, size, at);
}
ssize_t pwrite64(int descriptor, const void* bytes, size_t size, off64_t at) {
  return pwrite(descriptor, bytes, size, at);
}

}  // extern "C"
