// SPDX-License-Identifier: Apache-2.0
#include "interrupt.hpp"

#include <atomic>

#include "sft/core/error.hpp"

namespace sft::apps {

namespace {

std::atomic<bool> is_interrupted = false;  // any thread may run the handler
static_assert(std::atomic<bool>::is_always_lock_free);

/// Nothing but async-signal-safe calls.
void remember(int signal) {
  if (!is_interrupted.exchange(true)) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // delivered when this handler returns
}

}  // namespace

Interrupt::Interrupt() {
  is_interrupted = false;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;  // reads and writes under way go on
  sigemptyset(&action.sa_mask);
  ensure(sigaction(SIGINT, &action, &former_) == 0, "sigaction");
}

Interrupt::~Interrupt() { sigaction(SIGINT, &former_, nullptr); }

bool Interrupt::is_asked() const { return is_interrupted; }

}  // namespace sft::apps
