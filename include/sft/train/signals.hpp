#pragma once
// SIGTERM and SIGUSR1 mean: finish this step, save, stop.

#include <array>
#include <csignal>
#include <string>

namespace sft::train {

/// While it lives, SIGTERM and SIGUSR1 set a flag instead of ending the process; the former handlers come back with its
/// end. One at a time in a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The number of a signal that this process received, or 0.
  [[nodiscard]] int received() const;

 private:
  static constexpr std::array<int, 2> signals{SIGTERM, SIGUSR1};
  std::array<struct sigaction, signals.size()> former_{};
};

/// "SIGTERM"
[[nodiscard]] std::string signal_name(int signal);

}  // namespace sft::train
