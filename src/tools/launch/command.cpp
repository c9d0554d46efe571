// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/command.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/core.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "sft/core/error.hpp"

namespace sft::launch {

namespace {

volatile sig_atomic_t child_process = 0;

/// A terminal's Ctrl-C reaches the child by itself; what somebody sends to this process does not.
void pass_on(int signal, siginfo_t* info, void* /*context*/) {
  if (info->si_code != SI_KERNEL && child_process > 0) ::kill(static_cast<pid_t>(child_process), signal);
}

std::vector<char*> arguments_of(std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return arguments;
}

[[noreturn]] void refuse(const std::string& program, int error) {
  throw Error(ExitStatus::failure, fmt::format("cannot start {}", program), std::strerror(error),
              "build or install it beside this program");
}

}  // namespace

int run_command(const std::vector<std::string>& words) {
  static constexpr std::array signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  std::vector<std::string> copies = words;
  const std::vector<char*> arguments = arguments_of(copies);
  pid_t child = 0;
  if (const int error = ::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ)) {
    refuse(words.front(), error);
  }
  child_process = child;
  std::array<struct sigaction, signals.size()> former{};
  struct sigaction action {};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &action, &former[i]);
  int ended = 0;
  while (::waitpid(child, &ended, 0) < 0 && errno == EINTR) {
  }
  child_process = 0;
  for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &former[i], nullptr);
  return WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
}

void become_command(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  const std::vector<char*> arguments = arguments_of(copies);
  ::execvp(arguments[0], arguments.data());
  refuse(words.front(), errno);
}

}  // namespace sft::launch
