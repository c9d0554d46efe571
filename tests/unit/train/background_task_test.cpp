// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "train/background_task.hpp"

using namespace sft;

namespace {

int own_niceness() { return ::getpriority(PRIO_PROCESS, 0); }

/// Works until `ends`; the seconds of a processor that this thread had for it.
double busy_s(const std::atomic<bool>& ends) {
  while (!ends) continue;
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

/// This thread, and all that it starts, on one core, while it lives.
class OneCore {
 public:
  OneCore() {
    ::sched_getaffinity(0, sizeof former_, &former_);
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &former_)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      ::sched_setaffinity(0, sizeof one, &one);
      return;
    }
  }
  ~OneCore() { ::sched_setaffinity(0, sizeof former_, &former_); }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  cpu_set_t former_{};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(background_task)

BOOST_AUTO_TEST_CASE(its_thread_alone_is_nicer) {
  const int own = own_niceness();
  int of_work = own;
  train::BackgroundTask task;
  task.start([&] { of_work = own_niceness(); });
  task.wait();
  BOOST_TEST(of_work == std::min(own + 10, 19));
  BOOST_TEST(own_niceness() == own);
  task.start([&] { of_work = own_niceness(); });  // not nicer with every piece of work
  task.wait();
  BOOST_TEST(of_work == std::min(own + 10, 19));
}

BOOST_AUTO_TEST_CASE(of_a_core_that_both_want_training_has_most) {
  if (own_niceness() > 5) return;  // the test itself has little left to give
  const OneCore one_core;
  std::atomic<bool> ends = false;
  double background_s = 0, training_s = 0;
  train::BackgroundTask task;
  task.start([&] { background_s = busy_s(ends); });
  std::thread training([&] { training_s = busy_s(ends); });
  std::this_thread::sleep_for(std::chrono::seconds(2));
  ends = true;
  training.join();
  task.wait();
  BOOST_TEST_MESSAGE("training " << training_s << " s, background " << background_s << " s");
  BOOST_TEST(training_s > 4 * background_s);  // 9.3 to 1 by the kernel's weights, over a short time
}

BOOST_AUTO_TEST_CASE(an_error_is_thrown_once_where_it_is_waited_for) {
  train::BackgroundTask task;
  BOOST_TEST(task.is_done());
  task.start([] { throw std::runtime_error("no space"); });
  BOOST_CHECK_THROW(task.wait(), std::runtime_error);
  BOOST_TEST(task.is_done());
  BOOST_TEST(!task.has_failed());
  task.wait();
}

BOOST_AUTO_TEST_SUITE_END()
