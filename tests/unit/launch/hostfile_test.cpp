// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/hostfile.hpp"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>

#include "support/config_error.hpp"
#include "support/temporary_folder.hpp"

using namespace sft;
using test::check_says;
using test::refusal;

BOOST_AUTO_TEST_SUITE(hostfile)

namespace {

struct Case {
  const char* text;
  int num_hosts, num_slots;
};

}  // namespace

BOOST_AUTO_TEST_CASE(slots) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("my hosts, [1] #2");
  for (const Case& lines : {
           Case{"worker-1 slots=8\nworker-2 slots=8\n", 2, 16},
           Case{"worker-1 slots=8\nworker-2 slots=4", 2, 12},
           Case{"# all of them\n\n  \nworker-1 slots=2 # a comment\n#worker-2 slots=8\n", 1, 2},
           Case{"worker-1\tslots = 3\r\n", 1, 3},
           Case{"worker-1 slots=2 max_slots=4\nworker-2 max-slots=3 slots=1\n", 2, 3},
           Case{"worker-1 max_slots=3\n", 1, 3},
           Case{"worker-1 cpu=3\nworker-2 count=2\n", 2, 5},
           Case{"worker-1:8\nworker-2:8\n", 2, 16},
           Case{"worker-1:8 ifname=ib0\n", 1, 8},
           Case{"user@worker-1 slots=8\n", 1, 8},
           Case{"fe80::1 slots=8\n", 1, 8},
           Case{"n1\nn1\nn1\nn2\nn2\n", 2, 5},  // PBS
           Case{"n1 slots=1\nn1 slots=2\n", 1, 3},
           Case{"n1 slots=0\nn2 slots=2\n", 2, 2},
       }) {
    std::ofstream(file) << lines.text;
    const launch::Hosts hosts = launch::read_hostfile(file);
    BOOST_TEST_CONTEXT(lines.text) {
      BOOST_TEST(hosts.num_hosts == lines.num_hosts);
      BOOST_TEST(hosts.num_slots == lines.num_slots);
      BOOST_TEST(hosts.unclear == "");
    }
  }
}

BOOST_AUTO_TEST_CASE(slots_that_are_not_said) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("hosts");
  for (const auto& [text, why] : {
           std::pair{"n1 slots=4\nn2\n", ":2: the line of n2 has no slots"},
           std::pair{"n1 slots=four\n", ":1: `four` is no number of slots"},
           std::pair{"n1:x\n", ":1: `x` is no number of slots"},
           std::pair{"n1 slots=-1\n", ":1: `-1` is no number of slots"},
           std::pair{"+n0 slots=1\n", ":1: `+n0` means hosts by their place"},
           std::pair{"n1 slots=0\n", "all hosts have 0 slots"},
       }) {
    std::ofstream(file) << text;
    const launch::Hosts hosts = launch::read_hostfile(file);
    BOOST_TEST(hosts.num_slots == 0);
    BOOST_TEST_CONTEXT(hosts.unclear) { BOOST_TEST(hosts.unclear.find(why) != std::string::npos); }
  }
  std::ofstream(file) << "# nothing\n\n";
  check_says(refusal([&] { static_cast<void>(launch::read_hostfile(file)); }), "names no host");
}

BOOST_AUTO_TEST_CASE(what_is_no_file) {
  const test::TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  BOOST_REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  check_says(refusal([&] { static_cast<void>(launch::read_hostfile(pipe)); }), "can be read only once");
  check_says(refusal([&] { static_cast<void>(launch::read_hostfile(folder.path())); }), "it is a folder");
  check_says(refusal([&] { static_cast<void>(launch::read_hostfile(folder.file("none"))); }), "there is no hostfile");
}

BOOST_AUTO_TEST_CASE(hosts_of_a_job) {
  using Slots = std::vector<std::pair<std::string, int>>;
  const test::TemporaryFolder folder;
  const std::string file = folder.file("nodes");
  ::setenv("PBS_NODEFILE", file.c_str(), 1);
  ::setenv("LSB_MCPU_HOSTS", "a 4 b 2", 1);
  BOOST_TEST((launch::find_job_hosts().slots_of == Slots{{"a", 4}, {"b", 2}}));
  std::ofstream(file) << "n2\nn2\nn1\nn1\n";
  BOOST_TEST((launch::find_job_hosts().slots_of == Slots{{"n2", 2}, {"n1", 2}}));
  BOOST_TEST(launch::find_job_hosts().is_file_clear);
  std::ofstream(file) << "n2\nn1\n";
  BOOST_TEST((launch::find_job_hosts().slots_of == Slots{{"n2", 1}, {"n1", 1}}));
  BOOST_TEST(!launch::find_job_hosts().is_file_clear);
  ::unsetenv("PBS_NODEFILE");
  ::unsetenv("LSB_MCPU_HOSTS");
}

BOOST_AUTO_TEST_SUITE_END()
