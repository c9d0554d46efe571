// SPDX-License-Identifier: Apache-2.0
#include "child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/core.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "sft/core/error.hpp"

namespace sft::apps {

namespace {

/// The child that runs, for signals: who asks this program to stop means it.
volatile sig_atomic_t running_child = 0;

extern "C" void stop_child(int /*signal*/) {
  if (running_child > 0) ::kill(running_child, SIGTERM);
}

/// While it lives, signals that ask to stop are passed on.
class PassedOn {
 public:
  PassedOn() {
    struct sigaction passing_on {};
    passing_on.sa_handler = stop_child;
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &passing_on, &former_[i]);
  }
  ~PassedOn() {
    running_child = 0;
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &former_[i], nullptr);
  }
  PassedOn(const PassedOn&) = delete;
  PassedOn& operator=(const PassedOn&) = delete;

 private:
  static constexpr std::array signals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, signals.size()> former_{};
};

/// What the child begins with: its files, and no signal blocked.
class Beginning {
 public:
  explicit Beginning(const std::string& log) {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    if (log.empty()) return;
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  }
  ~Beginning() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
  Beginning(const Beginning&) = delete;
  Beginning& operator=(const Beginning&) = delete;

  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
};

}  // namespace

int run_and_wait(const std::vector<std::string>& words, const std::string& log, const std::string& what_to_do) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const Beginning beginning(log);
  const PassedOn passed_on;
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, arguments.front(), &beginning.files, &beginning.attributes, arguments.data(), environ);
  if (error != 0) throw_config_error(fmt::format("cannot run {}", words.front()), std::strerror(error), what_to_do);
  running_child = child;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace sft::apps
