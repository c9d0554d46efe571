// SPDX-License-Identifier: Apache-2.0
#include "sft/core/stop_signals.hpp"

#include <pthread.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>

#include "sft/core/ensure.hpp"
#include "sft/core/log.hpp"

namespace sft {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto min_silence = std::chrono::seconds(1);  // before a SIGINT that ends what is stuck

/// Signals that stay with the thread that they hit.
constexpr std::array<int, 10> thread_signals{SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP,
                                             SIGSYS,  SIGABRT, SIGPIPE, SIGTTIN, SIGTTOU};

void set_mask(int how, const sigset_t& set, sigset_t* former = nullptr) {
  SFT_ENSURE(::pthread_sigmask(how, &set, former) == 0, "pthread_sigmask");
}

/// The signal's own action on this process, which is to end it.
[[noreturn]] void end_process_by(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  set_mask(SIG_UNBLOCK, set);
  std::raise(signal);
  std::_Exit(128 + signal);  // not reached
}

/// What sft-run and the ranks that it started tell each other, where they see the same files: sft-run writes `stop`
/// once it was asked to; a rank `began` at its start, and `nothing-to-save` when a stop ends it before the first step;
/// rank 0 `status`, how the run ends, which a launcher that gets a signal then may not tell; the first rank that ends
/// by itself `ending`, with its status.
std::string file_of_sft_run(const char* name) {
  const char* folder = std::getenv("SFT_RUN_FOLDER");
  return folder == nullptr || *folder == '\0' ? "" : fmt::format("{}/{}", folder, name);
}

bool is_stop_asked_for() {
  const std::string file = file_of_sft_run("stop");
  return !file.empty() && ::access(file.c_str(), F_OK) == 0;
}

/// Ranks on other machines have nobody to tell.
void tell_sft_run(const char* name, const std::string& text) {
  const std::string file = file_of_sft_run(name);
  if (!file.empty()) std::ofstream(file) << text;
}

/// The thread, and what it does with a signal.
class Listener {
 public:
  void start() {
    if (is_started_) return;
    is_started_ = true;
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int signal : thread_signals) sigdelset(&blocked, signal);
    set_mask(SIG_BLOCK, blocked, &at_start_);

    sigset_t taken;
    sigemptyset(&taken);
    for (const int signal : stop_signals) {
      struct sigaction action {};
      SFT_ENSURE(::sigaction(signal, nullptr, &action) == 0, "sigaction");
      const bool is_ignored = action.sa_handler == SIG_IGN;
      if (is_ignored && (signal == SIGINT || signal == SIGHUP)) continue;
      if (is_ignored) std::signal(signal, SIG_DFL);
      sigaddset(&taken, signal);
    }
    std::thread([this, taken] { listen(taken); }).detach();
    tell_sft_run("began", "");
    if (is_stop_asked_for()) take(SIGUSR1);
  }

  void remember(std::initializer_list<int> signals) {
    SFT_ENSURE(is_started_, "signals have their thread");
    if (is_stop_asked_for()) take(SIGUSR1);
    const std::lock_guard lock(mutex_);
    SFT_ENSURE(remembered_.empty(), "one StopSignals at a time");
    remembered_ = signals;
    has_worked_ = true;
    received_ = 0;
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    remembered_.clear();
  }

  void ignore(int status) {
    const std::lock_guard lock(mutex_);
    is_ignoring_ = true;
    if (log_rank() == 0) tell_sft_run("status", fmt::format("{}\n", status));
  }

  [[nodiscard]] int received() const { return received_; }
  [[nodiscard]] const sigset_t& at_start() const { return at_start_; }

 private:
  [[noreturn]] void listen(const sigset_t& taken) {
    ::pthread_setname_np(::pthread_self(), "signals");
    sigset_t blocked = at_start_;
    for (const int signal : stop_signals) sigaddset(&blocked, signal);
    set_mask(SIG_SETMASK, blocked);
    while (true) {
      int signal = 0;
      if (::sigwait(&taken, &signal) == 0) take(signal);
    }
  }

  void take(int signal) {
    const std::lock_guard lock(mutex_);
    if (is_ignoring_) return;
    if (std::ranges::find(remembered_, signal) == remembered_.end()) {
      if (!has_worked_) tell_sft_run("nothing-to-save", "");
      end_process_by(signal);
    }
    const auto now = Clock::now();
    if (received_ == 0) {
      received_ = signal;
    } else if (signal == SIGINT && now - last_ >= min_silence) {
      end_process_by(signal);
    }
    last_ = now;
  }

  std::mutex mutex_;
  std::vector<int> remembered_;
  bool is_started_ = false, has_worked_ = false, is_ignoring_ = false;
  std::atomic<int> received_ = 0;
  Clock::time_point last_;  // when a signal came, where received_ is not 0
  sigset_t at_start_{};
};

/// It is never destroyed: its thread goes on until the process has ended.
Listener& listener() {
  static auto* const instance = new Listener;
  return *instance;
}

}  // namespace

void listen_for_signals() { listener().start(); }
void ignore_stop_signals(int status) { listener().ignore(status); }

void tell_ending(int status) {
  const std::string file = file_of_sft_run("ending");
  if (!file.empty() && ::access(file.c_str(), F_OK) != 0) tell_sft_run("ending", fmt::format("{}\n", status));
}

StopSignals::StopSignals(std::initializer_list<int> signals) { listener().remember(signals); }
StopSignals::~StopSignals() { listener().forget(); }
int StopSignals::received() const { return listener().received(); }
void StopSignals::end_process() const { end_process_by(received()); }

SignalsAsAtStart::SignalsAsAtStart() { set_mask(SIG_SETMASK, listener().at_start(), &former_); }
SignalsAsAtStart::~SignalsAsAtStart() { ::pthread_sigmask(SIG_SETMASK, &former_, nullptr); }

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : std::string("SIG") + name;
}

}  // namespace sft
