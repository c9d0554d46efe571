// SPDX-License-Identifier: Apache-2.0
// What /proc says of a process, real and made up.
#include "sft/machine/node.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.hpp"

namespace sft::machine {

namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(process_states)

BOOST_AUTO_TEST_CASE(a_child_runs_is_stopped_and_ends) {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  BOOST_TEST((process_state(child) == ProcessState::runs));
  int status = 0;
  ::kill(child, SIGSTOP);
  ::waitpid(child, &status, WUNTRACED);
  BOOST_TEST((process_state(child) == ProcessState::stopped));
  ::kill(child, SIGKILL);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  BOOST_TEST((process_state(child) == ProcessState::ended));  // a zombie
  ::waitpid(child, &status, 0);
  BOOST_TEST((process_state(child) == ProcessState::ended));  // gone
}

BOOST_AUTO_TEST_CASE(a_thread_that_nothing_interrupts_blocks_the_process) {
  const test::TemporaryFolder root;
  const auto write = [&](const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root.file(file)).parent_path());
    std::ofstream(root.file(file)) << text;
  };
  write("proc/self/stat", "");
  write("proc/7/stat", "7 (a ) D (b) S 1 7 7");
  write("proc/7/task/7/stat", "7 (a ) D (b) S 1 7 7");
  BOOST_TEST((process_state(7, root.path()) == ProcessState::runs));
  write("proc/7/task/8/stat", "8 (reader) D 1 7 7");
  BOOST_TEST((process_state(7, root.path()) == ProcessState::blocked));
  BOOST_TEST((process_state(9, root.path()) == ProcessState::ended));
}

BOOST_AUTO_TEST_CASE(a_system_that_does_not_tell_says_that_all_run) {
  const test::TemporaryFolder root;
  BOOST_TEST((process_state(1, root.path()) == ProcessState::runs));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::machine
