// SPDX-License-Identifier: Apache-2.0
#include "sft/core/process.hpp"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace sft {

double process_start_time_s() {
  // Field 22 of /proc/self/stat counts clock ticks since boot; btime of /proc/stat is the time of boot.
  std::ifstream stat("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  const double since_boot_s = std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream uptime("/proc/uptime");
  double uptime_s = 0;
  uptime >> uptime_s;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - uptime_s + since_boot_s;
}

void raise_open_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void return_freed_memory() {
#ifdef __GLIBC__
  constexpr int threshold_bytes = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, threshold_bytes);
  mallopt(M_TRIM_THRESHOLD, threshold_bytes);
#endif
}

}  // namespace sft
