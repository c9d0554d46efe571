// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <functional>

#include "sft/train/signals.hpp"

using namespace sft;

namespace {

/// How a process ends that does `work` and then exits with 0: the signal that ended it, or 0.
int ending_signal(const std::function<void()>& work) {
  const pid_t child = fork();
  BOOST_TEST_REQUIRE(child >= 0);
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

constexpr useconds_t later_us = 1'100'000;

}  // namespace

BOOST_AUTO_TEST_CASE(signals_set_the_flag_and_the_process_goes_on) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT, SIGHUP, SIGPIPE}) {
    std::signal(signal, SIG_DFL);
    const train::StopSignals signals;
    BOOST_TEST(signals.received() == 0);
    std::raise(signal);
    BOOST_TEST(signals.received() == signal);
    std::raise(signal == SIGTERM ? SIGUSR1 : SIGTERM);  // sent twice at once: one request
    BOOST_TEST(signals.received() == signal);
  }
}

BOOST_AUTO_TEST_CASE(a_second_signal_ends_the_process) {
  const auto second = [](int signal) {
    return ending_signal([signal] {
      const train::StopSignals signals;
      std::raise(SIGUSR1);
      usleep(later_us);
      std::raise(signal);
    });
  };
  BOOST_TEST(second(SIGTERM) == SIGTERM);
  BOOST_TEST(second(SIGUSR1) == SIGUSR1);
  BOOST_TEST(second(SIGPIPE) == 0);  // comes with every line that nobody reads
}

BOOST_AUTO_TEST_CASE(what_was_ignored_stays_ignored) {
  for (const int signal : {SIGINT, SIGHUP, SIGPIPE}) {
    std::signal(signal, SIG_IGN);
    const train::StopSignals signals;
    std::raise(signal);
    BOOST_TEST(signals.received() == 0);
    std::signal(signal, SIG_DFL);
  }
}

BOOST_AUTO_TEST_CASE(former_handlers_come_back) {
  std::signal(SIGUSR1, SIG_IGN);
  { const train::StopSignals signals; }
  BOOST_TEST((std::signal(SIGUSR1, SIG_DFL) == SIG_IGN));
}

BOOST_AUTO_TEST_CASE(names) {
  BOOST_TEST(train::signal_name(SIGTERM) == "SIGTERM");
  BOOST_TEST(train::signal_name(SIGUSR1) == "SIGUSR1");
  BOOST_TEST(train::signal_name(1000) == "signal 1000");
}
