// SPDX-License-Identifier: Apache-2.0
#include "child.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include "sft/core/program.hpp"

namespace sft::test {

namespace {

constexpr int cpu_limit_s = 10;  // sound files take milliseconds
constexpr int wall_limit_s = 120;
#if defined(__SANITIZE_ADDRESS__)
constexpr rlim_t memory_limit_bytes = RLIM_INFINITY;  // it reserves terabytes of addresses
#else
constexpr rlim_t memory_limit_bytes = rlim_t{4} << 30;
#endif

void write_all(int descriptor, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR) ::_exit(1);
    if (count > 0) done += static_cast<std::size_t>(count);
  }
}

[[noreturn]] void run_child(const std::function<std::string()>& action, int descriptor) {
  const rlimit cpu = {cpu_limit_s, cpu_limit_s + 1}, memory = {memory_limit_bytes, memory_limit_bytes},
               no_core = {0, 0};
  ::setrlimit(RLIMIT_CPU, &cpu);
  ::setrlimit(RLIMIT_AS, &memory);
  ::setrlimit(RLIMIT_CORE, &no_core);
  char kind = 'd';
  std::string text;
  try {
    text = action();
  } catch (...) {
    const Error error = current_error();
    const bool is_users = error.status() == ExitStatus::data || error.status() == ExitStatus::configuration;
    kind = is_users ? 'r' : 'f';
    text = error.what();
  }
  write_all(descriptor, kind + text);
  ::_exit(0);  // without what the parent registered to happen at its end
}

/// All that the child writes, until it ends or time is up.
bool read_all(int descriptor, std::string& text) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds(wall_limit_s);
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waited = {descriptor, POLLIN, 0};
    if (::poll(&waited, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count == 0) return true;
    if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

Outcome run_in_child(const std::function<std::string()>& action) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("cannot make a pipe");
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot start a process");
  if (child == 0) {
    ::close(ends[0]);
    run_child(action, ends[1]);
  }
  ::close(ends[1]);
  std::string text;
  const bool has_ended = read_all(ends[0], text);
  ::close(ends[0]);
  if (!has_ended) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!has_ended || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)) return {Outcome::Kind::hung, ""};
  if (WIFSIGNALED(status)) return {Outcome::Kind::crashed, ::strsignal(WTERMSIG(status))};
  if (WEXITSTATUS(status) != 0 || text.empty()) {
    return {Outcome::Kind::crashed, "exit status " + std::to_string(WEXITSTATUS(status))};
  }
  const char kind = text.front();
  text.erase(0, 1);
  if (kind == 'd') return {Outcome::Kind::done, text};
  return {kind == 'r' ? Outcome::Kind::refused : Outcome::Kind::failed, text};
}

}  // namespace sft::test
