// SPDX-License-Identifier: Apache-2.0
#include "sft/core/program.hpp"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fmt/core.h>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <sstream>
#include <string>
#include <string_view>

#include "sft/core/log.hpp"

namespace sft {

const char* version() noexcept { return SFT_VERSION; }

namespace {

/// The Error that a bug in this program becomes.
Error bug(std::string what) {
  constexpr std::string_view prefix = "internal error: ";
  if (!what.starts_with(prefix)) what.insert(0, prefix);
  return {ExitStatus::failure, what, fmt::format("a bug in sft {}, not in your input", version()),
          "please report it with the command line"};
}

}  // namespace

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::filesystem::filesystem_error& error) {
    return {ExitStatus::data, fmt::format("cannot use {}", error.path1().string()), error.code().message(),
            "check the path and your permissions along it"};
  } catch (const std::bad_alloc&) {
    return {ExitStatus::failure, "out of memory", "the system gave no more", "use a smaller batch or more ranks"};
  } catch (const std::exception& error) {
    return bug(error.what());
  } catch (...) {
    return bug("an exception of unknown type");
  }
}

int status_with_output(int status) {
  if (status != static_cast<int>(ExitStatus::done) || !has_lost_output()) return status;
  log_error("standard output was cut (it cannot be written): free space, or write to another place");
  return static_cast<int>(ExitStatus::failure);
}

int run_alone(const std::function<int()>& body) {
  try {
    return status_with_output(body());
  } catch (...) {
    const Error error = current_error();
    log_error(error.what());
    return static_cast<int>(error.status());
  }
}

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
