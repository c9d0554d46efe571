// SPDX-License-Identifier: Apache-2.0
#pragma once
// Signals that mean: finish this step, save, stop.

#include <array>
#include <csignal>
#include <string>

namespace sft::train {

/// While it lives, the first SIGTERM, SIGUSR1, SIGINT, SIGHUP or SIGPIPE sets a flag and the process goes on, so that
/// the run can save. A later one ends the process, as it would have without this class: a run that is stuck can be
/// ended. Later means a second or more after the first, because some senders (timeout, SLURM) send twice at once.
/// SIGPIPE comes with every line to an output that nobody reads, so it only ever sets the flag. SIGINT, SIGHUP, SIGPIPE
/// stay ignored where the process was started with them ignored (nohup, a script's background job). The destructor puts
/// the former handlers back. One at a time in a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The number of the first signal that this process received, or 0.
  [[nodiscard]] int received() const;

 private:
  static constexpr std::array<int, 5> signals{SIGTERM, SIGUSR1, SIGINT, SIGHUP, SIGPIPE};
  std::array<struct sigaction, signals.size()> former_{};
};

/// "SIGTERM"
[[nodiscard]] std::string signal_name(int signal);

}  // namespace sft::train
