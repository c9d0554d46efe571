// SPDX-License-Identifier: Apache-2.0
#include "sft/train/signals.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "sft/core/error.hpp"

namespace sft::train {

namespace {

constexpr std::int64_t nanoseconds = 1'000'000'000;
constexpr std::int64_t min_gap_ns = nanoseconds;  // between two signals that are not one request

// Any thread may run the handler.
std::atomic<int> received_signal = 0;
std::atomic<std::int64_t> received_ns = 0;  // set before received_signal
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now_ns() {
  std::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * nanoseconds + now.tv_nsec;
}

/// The handler: nothing but async-signal-safe calls. All signals are blocked in it.
void remember(int signal) {
  if (received_signal == 0) {
    received_ns = now_ns();
    received_signal = signal;
  } else if (signal != SIGPIPE && now_ns() - received_ns >= min_gap_ns) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // delivered when this handler returns
  }
}

/// Whether a process that was started with the signal ignored goes on ignoring it.
bool may_stay_ignored(int signal) { return signal == SIGINT || signal == SIGHUP || signal == SIGPIPE; }

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;  // reads and writes under way go on
  sigfillset(&action.sa_mask);
  for (std::size_t i = 0; i < signals.size(); ++i) {
    ensure(sigaction(signals[i], nullptr, &former_[i]) == 0, "sigaction");
    if (former_[i].sa_handler == SIG_IGN && may_stay_ignored(signals[i])) continue;
    ensure(sigaction(signals[i], &action, nullptr) == 0, "sigaction");
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &former_[i], nullptr);
}

int StopSignals::received() const { return received_signal; }

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

}  // namespace sft::train
