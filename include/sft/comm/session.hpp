// SPDX-License-Identifier: Apache-2.0
#pragma once
// The lifetime of MPI in this process, and how errors end a run.

#include <functional>
#include <string>

#include "sft/comm/group.hpp"

namespace sft::comm {

/// MPI from construction to destruction. One per process. MPI errors return and become exceptions. Only the
/// thread that made the Session calls MPI (MPI_THREAD_FUNNELED).
class Session {
 public:
  /// Collective over all ranks that mpirun started. Sets the rank of messages (core/log.hpp). Throws an Error
  /// (ExitStatus::failure) when MPI does not start.
  Session(int* argc, char*** argv);
  /// Collective: ends MPI. No Group is used afterwards.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] const Group& world() const { return world_; }
  /// The ranks of `world` that share this node's memory.
  [[nodiscard]] const Group& node() const { return node_; }

 private:
  Group world_;
  Group node_;
};

/// Runs a program: makes the Session, calls `body`, returns the exit status. A SharedError is taken to be held by every
/// rank of the world: rank 0 prints it and all return its status. Any other exception prints one line that names this
/// rank and aborts all ranks with the status it maps to. On one rank every exception is printed and its status
/// returned. Collective over all ranks that mpirun started.
[[nodiscard]] int run_program(int argc, char** argv, const std::function<int(Session&)>& body);

/// Does, before MPI starts, what every rank does alike and what needs no other rank, such as reading the command line:
/// it works where MPI does not start. The first rank alone prints, and says why it failed; the exit status is that of
/// the Error that `work` throws.
[[nodiscard]] int run_before_mpi(const std::function<void()>& work);

/// Ends all ranks at once: prints `message` with this rank's number, then MPI_Abort with `status`.
[[noreturn]] void abort_all(ExitStatus status, const std::string& message);

/// The Error that Group::agree throws: held by every rank of the group. One that leaves the body of run_program must be
/// held by every rank of the world; one of a smaller group would leave the other ranks waiting.
class SharedError : public Error {
 public:
  using Error::Error;
};

}  // namespace sft::comm
