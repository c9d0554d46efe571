// SPDX-License-Identifier: Apache-2.0
#pragma once
// Signals that ask a program to stop. One thread takes them, so that none interrupts a thread that computes.

#include <signal.h>

#include <array>
#include <initializer_list>
#include <string>
#include <vector>

namespace sft {

/// The signals that ask a program to stop.
inline constexpr std::array<int, 4> stop_signals{SIGTERM, SIGUSR1, SIGINT, SIGHUP};

/// Starts a thread that takes the signals of this process, and blocks them in the calling thread and in all that it
/// starts from then on. Call it first in main, before a library starts threads; a second call does nothing. Without it
/// a handler, of this program or of a library, may run on a thread that computes, and its frame may fall on data:
/// generated code (oneDNN's for AVX2) keeps more below the stack pointer than the system leaves alone.
///
/// The thread waits for the stop signals: until an object says otherwise, each ends the process as it does by itself.
/// SIGINT and SIGHUP stay ignored where the process was started so (nohup, a script's background job). Other signals
/// that are sent to the process have their usual effect, and handlers of libraries run, on the same thread. As before
/// are crashes, SIGPIPE and the stops of a background process that uses its terminal, which concern the thread they
/// hit.
///
/// Under sft-run, a stop that it was asked for before this process could hear of it counts as a signal at the start.
void listen_for_signals();

/// While it lives, the first of its signals is remembered and the process goes on. Further ones change nothing, because
/// queues send several (a warning, then SIGTERM at the limit) while a checkpoint is being saved, and kill what does not
/// end in time. Only a person's SIGINT (Ctrl-C), after a second without any signal, ends the process by its own action:
/// what is stuck can be ended. One at a time; needs listen_for_signals().
class StopSignals {
 public:
  explicit StopSignals(std::initializer_list<int> signals);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The number of the first signal that came, or 0. From any thread.
  [[nodiscard]] int received() const;

  /// Ends the process by the signal that came, as if nobody had remembered it.
  [[noreturn]] void end_process() const;
};

/// From now on stop signals have no effect: the work is done, and the process ends by itself with this status. Under
/// sft-run, rank 0 tells it the status too.
void ignore_stop_signals(int status);

/// Under sft-run: tells it the exit status with which this process ends, once the first of the ranks does; mpiexec of
/// MPICH tells no more than all their statuses in one number.
void tell_ending(int status);

/// While it lives, the calling thread takes signals as it did before listen_for_signals(): for a library that handles
/// those of a terminal while it reads from it.
class SignalsAsAtStart {
 public:
  SignalsAsAtStart();
  ~SignalsAsAtStart();
  SignalsAsAtStart(const SignalsAsAtStart&) = delete;
  SignalsAsAtStart& operator=(const SignalsAsAtStart&) = delete;

 private:
  sigset_t former_{};
};

/// "SIGTERM"
[[nodiscard]] std::string signal_name(int signal);

}  // namespace sft
