// SPDX-License-Identifier: Apache-2.0
#include "sft/core/stop_signals.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "support/temporary_folder.hpp"

using namespace sft;

namespace {

constexpr int wrong = 99;  // the exit status of a child that saw something wrong
constexpr useconds_t moment_us = 20'000, later_us = 1'100'000;
constexpr unsigned deadline_s = 240;  // that ends a child which hangs, on a machine that stands still for a while too
constexpr int moments_to_hear = 60 * 50;  // a minute

/// How a process ends that does `work` and returns whether all was right: its exit status, or 128 and its signal.
int ending(const std::function<bool()>& work) {
  const pid_t child = fork();
  BOOST_TEST_REQUIRE(child >= 0);
  if (child == 0) {
    for (const int signal : stop_signals) std::signal(signal, SIG_DFL);
    alarm(deadline_s);
    _exit(work() ? 0 : wrong);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void send(int signal) {
  kill(getpid(), signal);
  usleep(moment_us);
}

bool hears(const StopSignals& signals, int signal) {
  for (int i = 0; i < moments_to_hear && signals.received() == 0; ++i) usleep(moment_us);
  return signals.received() == signal;
}

std::atomic<pthread_t> handler_thread;

/// The thread on which a handler of the signal runs, as a library would install one.
pthread_t thread_of_handler(int signal) {
  handler_thread = pthread_t{};
  std::signal(signal, [](int) { handler_thread = pthread_self(); });
  kill(getpid(), signal);
  for (int i = 0; i < moments_to_hear && handler_thread == pthread_t{}; ++i) usleep(moment_us);
  return handler_thread;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_signal_is_remembered_and_the_process_goes_on) {
  for (const int signal : stop_signals) {
    BOOST_TEST(ending([signal] {
                 listen_for_signals();
                 const StopSignals signals({SIGTERM, SIGUSR1, SIGINT, SIGHUP});
                 if (signals.received() != 0) return false;
                 send(signal);
                 return hears(signals, signal);
               }) == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_storm_is_one_request) {
  BOOST_TEST(ending([] {
               listen_for_signals();
               const StopSignals signals({SIGTERM, SIGUSR1});
               for (int i = 0; i < 100; ++i) send(i % 2 == 0 ? SIGUSR1 : SIGTERM);  // two seconds
               return hears(signals, SIGUSR1);
             }) == 0);
}

BOOST_AUTO_TEST_CASE(a_second_signal_changes_nothing) {
  for (const int second : {SIGTERM, SIGUSR1, SIGHUP}) {
    BOOST_TEST(ending([second] {
                 listen_for_signals();
                 const StopSignals signals({SIGTERM, SIGUSR1, SIGINT, SIGHUP});
                 send(SIGUSR1);
                 usleep(later_us);
                 send(second);
                 usleep(moment_us);
                 return hears(signals, SIGUSR1);
               }) == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_later_interrupt_ends_the_process) {
  for (const int first : {SIGTERM, SIGINT}) {
    BOOST_TEST(ending([first] {
                 listen_for_signals();
                 const StopSignals signals({SIGTERM, SIGUSR1, SIGINT, SIGHUP});
                 send(first);
                 usleep(later_us);
                 send(SIGINT);
                 usleep(later_us);
                 return true;
               }) == 128 + SIGINT);
  }
}

BOOST_AUTO_TEST_CASE(without_a_listener_of_its_own_a_signal_ends_the_process) {
  for (const int signal : stop_signals) {
    BOOST_TEST(ending([signal] {
                 listen_for_signals();
                 { const StopSignals signals({SIGTERM, SIGUSR1, SIGINT, SIGHUP}); }
                 send(signal);
                 usleep(later_us);
                 return true;
               }) == 128 + signal);
  }
  BOOST_TEST(ending([] {
               listen_for_signals();
               const StopSignals interrupts({SIGINT});
               send(SIGTERM);
               usleep(later_us);
               return true;
             }) == 128 + SIGTERM);
}

BOOST_AUTO_TEST_CASE(a_process_can_end_by_what_it_remembered) {
  BOOST_TEST(ending([] {
               listen_for_signals();
               const StopSignals signals({SIGTERM});
               send(SIGTERM);
               if (!hears(signals, SIGTERM)) return false;
               signals.end_process();
             }) == 128 + SIGTERM);
}

BOOST_AUTO_TEST_CASE(signals_after_the_work_have_no_effect) {
  BOOST_TEST(ending([] {
               listen_for_signals();
               {
                 const StopSignals signals({SIGTERM, SIGUSR1});
                 send(SIGUSR1);
                 ignore_stop_signals(0);
                 usleep(later_us);
                 send(SIGUSR1);
               }
               for (const int signal : stop_signals) send(signal);
               return true;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(what_nohup_ignores_stays_ignored) {
  for (const int signal : {SIGINT, SIGHUP}) {
    BOOST_TEST(ending([signal] {
                 std::signal(signal, SIG_IGN);
                 listen_for_signals();
                 send(signal);
                 const StopSignals signals({SIGTERM, SIGUSR1, SIGINT, SIGHUP});
                 send(signal);
                 return signals.received() == 0;
               }) == 0);
  }
}

BOOST_AUTO_TEST_CASE(no_handler_runs_on_another_thread) {
  BOOST_TEST(ending([] {
               listen_for_signals();
               std::atomic<bool> ends = false;
               std::thread computes([&ends] {
                 while (!ends) usleep(moment_us);
               });
               bool is_right = true;
               for (int i = 0; i < 20; ++i) {
                 const pthread_t thread = thread_of_handler(SIGCHLD);
                 is_right = is_right && thread != pthread_t{} && thread != pthread_self() &&
                            thread != computes.native_handle();
               }
               ends = true;
               computes.join();
               return is_right;
             }) == 0);
}

BOOST_AUTO_TEST_CASE(a_library_may_handle_signals_itself_for_a_while) {
  BOOST_TEST(ending([] {
               listen_for_signals();
               if (thread_of_handler(SIGWINCH) == pthread_self()) return false;
               {
                 const SignalsAsAtStart signals;
                 if (thread_of_handler(SIGWINCH) != pthread_self()) return false;
               }
               return thread_of_handler(SIGWINCH) != pthread_self();
             }) == 0);
}

BOOST_AUTO_TEST_CASE(sft_run_was_asked_before_the_process_could_hear) {
  const test::TemporaryFolder folder;
  const auto start = [&folder](bool has_worked) {
    return ending([&folder, has_worked] {
      setenv("SFT_RUN_FOLDER", folder.path().c_str(), 1);
      listen_for_signals();
      if (has_worked) const StopSignals signals({SIGTERM});
      send(SIGTERM);
      usleep(later_us);
      return true;
    });
  };
  const std::string note = folder.file("nothing-to-save");
  BOOST_TEST(start(true) == 128 + SIGTERM);
  BOOST_TEST(!std::filesystem::exists(note));
  BOOST_TEST(start(false) == 128 + SIGTERM);
  BOOST_TEST(std::filesystem::exists(note));
  std::filesystem::remove(note);
  std::ofstream(folder.file("stop")).flush();
  BOOST_TEST(start(true) == 128 + SIGUSR1);
  BOOST_TEST(std::filesystem::exists(note));
}

BOOST_AUTO_TEST_CASE(sft_run_is_told_the_status_of_the_work) {
  const test::TemporaryFolder folder;
  BOOST_TEST(ending([&folder] {
               setenv("SFT_RUN_FOLDER", folder.path().c_str(), 1);
               listen_for_signals();
               ignore_stop_signals(75);
               return true;
             }) == 0);
  int status = 0;
  std::ifstream(folder.file("status")) >> status;
  BOOST_TEST(status == 75);
}

BOOST_AUTO_TEST_CASE(names) {
  BOOST_TEST(signal_name(SIGTERM) == "SIGTERM");
  BOOST_TEST(signal_name(SIGUSR1) == "SIGUSR1");
  BOOST_TEST(signal_name(1000) == "signal 1000");
}
