// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD: a clock that is CLOCK_SHIFT_S seconds ahead, or behind, from CLOCK_AFTER_S seconds after the start of the
// process on. The steady clock goes on as it is.

#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <cstdlib>

namespace {

using Gettime = int(clockid_t, timespec*);

int true_time(clockid_t clock, timespec* time) {
  static auto* const real = reinterpret_cast<Gettime*>(::dlsym(RTLD_NEXT, "clock_gettime"));
  return real(clock, time);
}

time_t number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atol(text);
}

time_t steady_s() {
  timespec time{};
  true_time(CLOCK_MONOTONIC, &time);
  return time.tv_sec;
}

const time_t start_s = steady_s();

time_t shift_s() { return steady_s() - start_s < number("CLOCK_AFTER_S") ? 0 : number("CLOCK_SHIFT_S"); }

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = true_time(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += shift_s();
  return result;
}

time_t time(time_t* to) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != nullptr) *to = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(timeval* to, void*) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *to = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

}  // extern "C"
