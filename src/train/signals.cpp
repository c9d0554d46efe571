#include "sft/train/signals.hpp"

#include "sft/core/error.hpp"

namespace sft::train {

namespace {

volatile std::sig_atomic_t received_signal = 0;

void remember(int signal) { received_signal = signal; }

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;  // reads and writes under way go on
  for (std::size_t i = 0; i < signals.size(); ++i) {
    ensure(sigaction(signals[i], &action, &former_[i]) == 0, "sigaction");
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &former_[i], nullptr);
}

int StopSignals::received() const { return received_signal; }

std::string signal_name(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return "signal " + std::to_string(signal);
  }
}

}  // namespace sft::train
