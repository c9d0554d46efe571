// SPDX-License-Identifier: Apache-2.0
#include "checks/ends_with_fault.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "runtime/stream_queue.hpp"

namespace sft::test {

std::string fault_of(const std::function<void()>& action) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    try {
      action();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "exception: %s\n", error.what());
      _exit(1);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t count = 0; (count = read(ends[0], part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == emulation::fault_exit_status) return text;
  return "no fault (wait status " + std::to_string(status) + "): " + text;
}

}  // namespace sft::test
